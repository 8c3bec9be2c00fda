"""Scores by differentiating one trajectory's log π, mapped over trajectories by torch.func."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from maxk_lab.environments.capabilities import VectorisedEnvironment
from maxk_lab.gradients.scores.per_trajectory import ByElement, chunk_of, trained


@dataclass(frozen=True)
class VectorisedScores(ByElement):
    """Scores by differentiating one trajectory's log π, mapped over trajectories.

    `inputs` [M, ...] hold a row of each.
    """

    environment: VectorisedEnvironment
    policy: nn.Module
    inputs: tuple[Tensor, ...]

    @property
    def chunk(self) -> int:
        return chunk_of(sum(p.numel() * p.element_size() for p in trained(self.policy)))

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        names = {id(parameter): name for name, parameter in self.policy.named_parameters()}
        values = {names[id(parameter)]: parameter.detach() for parameter in block}

        def log_prob(values: dict[str, Tensor], *row: Tensor) -> Tensor:
            def policy(*args: Any, **kwargs: Any) -> Any:
                return functional_call(self.policy, values, args, kwargs)

            return self.environment.trajectory_log_prob(policy, *row)

        mapped = vmap(grad(log_prob), in_dims=(None, *[0] * len(self.inputs)))
        with torch.no_grad():  # the parameters outside the block are constants
            gradients = mapped(values, *[rows[i:j] for rows in self.inputs])
        return [gradients[name].reshape(j - i, -1) for name in values]
