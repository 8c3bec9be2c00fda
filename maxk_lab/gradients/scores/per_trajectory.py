"""Per-trajectory scores ψ_i = ∇_θ log π_θ(τ_i) of a torch policy in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.errors import LabError

CHUNK = 16
# Trajectories whose scores are made together where that costs no more than each alone, and the most
# memory that these may take.
TOGETHER = 64
TOGETHER_BYTES = 64 * 2**20


def trained(policy: nn.Module) -> list[nn.Parameter]:
    """The parameters of a policy that require a gradient: a score has their elements."""
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


def check_graph(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> None:
    """Raise `LabError` where log_probs of an instance's trajectories [m, T] have no gradient.

    A single one is looked at.
    """
    with torch.enable_grad():
        found = environment.log_probs(policy, instance, actions[:1].unsqueeze(0))
    if trained(policy) and not found.requires_grad:
        raise LabError(
            "the environment's log_probs returns a tensor that has no gradient with respect to the "
            "policy's parameters, and scores are that gradient: compute it from the policy without "
            ".detach(), torch.no_grad() or .item()"
        )


def chunk_of(row_bytes: int) -> int:
    """How many trajectories to score together, given the memory of one's scores."""
    return max(1, min(TOGETHER, TOGETHER_BYTES // max(row_bytes, 1)))


class Scores(Protocol):
    """The scores of M trajectories, made when they are asked for."""

    @property
    def chunk(self) -> int:
        """How many trajectories to ask for at a time."""
        ...

    def width(self, parameter: Tensor) -> int:
        """The number of columns that the scores have of a parameter: its elements."""
        ...

    def of_products(self) -> Scores:
        """The same with as few columns as one knows to have the same products."""
        ...

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        """Return the scores of trajectories i..j−1: [j − i, width] per parameter of `block`."""
        ...


class ByElement:
    """Scores with a column per element of every parameter, and no shorter way to products."""

    def width(self, parameter: Tensor) -> int:
        return parameter.numel()

    def of_products(self) -> Self:
        return self


@dataclass(frozen=True)
class BatchedScores(ByElement):
    """Scores by a batched backward pass per chunk.

    `log_probs(i, j)` returns log π of trajectories i..j−1 with its graph.
    """

    log_probs: Callable[[int, int], Tensor]
    chunk: int = CHUNK

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        return _scores_by_parameter(self.log_probs(i, j), block)


def trajectory_scores(log_probs: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Return the scores of c trajectories: log_probs [c] (with graph) → [c, P].

    P is the number of elements of `parameters`. One backward pass batched over the c trajectories.
    A parameter that log_probs does not depend on has score zero.
    """
    return torch.cat(_scores_by_parameter(log_probs, parameters), dim=1)


def _scores_by_parameter(log_probs: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    count = len(log_probs)
    rows = torch.eye(count, dtype=log_probs.dtype, device=log_probs.device)
    gradients = torch.autograd.grad(
        log_probs, parameters, grad_outputs=rows, is_grads_batched=True, allow_unused=True
    )
    return [
        p.new_zeros(count, p.numel()) if g is None else g.reshape(count, -1)
        for g, p in zip(gradients, parameters, strict=True)
    ]
