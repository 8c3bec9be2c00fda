"""The scores of trajectories, by the fastest exact way that their environment allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from maxk_lab.environments.capabilities import VectorisedEnvironment
from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.gradients.scores.per_trajectory import (
    BatchedScores,
    Scores,
    grams_of_scores,
    norms_of_scores,
)

# Trajectories whose gradients are made together, and the most memory their scores may take.
VECTORISED_CHUNK = 64
CHUNK_BYTES = 64 * 2**20


def instance_scores(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> Scores:
    """The scores of the trajectories actions [M, T] of one instance (a batch of one)."""
    if isinstance(environment, VectorisedEnvironment):
        inputs = environment.trajectory_inputs(instance, actions.unsqueeze(0))
        return VectorisedScores(environment, policy, inputs)
    return _batched_scores(environment, policy, instance, actions)


def _batched_scores(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> BatchedScores:
    actions = actions.unsqueeze(0)
    return BatchedScores(lambda i, j: environment.log_probs(policy, instance, actions[:, i:j])[0])


def trajectory_squared_norms(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor
) -> Tensor:
    """Return ‖∇_θ log π_θ(τ)‖² of every trajectory, exact: actions [B, n, T] → [B, n] float64.

    θ are the parameters of `policy` that require a gradient; the policy may be any torch module.
    Where the environment is vectorised and torch.func can map the policy this costs about as much
    as two or three backward passes of the whole batch, elsewhere as many as trajectories.
    """

    def norms(scores: Scores, groups: int, n: int, parameters: list[nn.Parameter]) -> Tensor:
        return norms_of_scores(scores, groups * n, parameters).view(groups, n)

    return _of_groups(norms, environment, policy, instances, actions)


def trajectory_grams(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor
) -> Tensor:
    """Return the exact Gram matrix Ψ Ψᵀ of each instance: actions [B, n, T] → [B, n, n] float64.

    Parameters and cost are those of `trajectory_squared_norms`, which is its diagonal.
    """
    return _of_groups(grams_of_scores, environment, policy, instances, actions)


# (scores of groups · n trajectories, groups, n, parameters) → [groups, ...].
Reduce = Callable[[Scores, int, int, list[nn.Parameter]], Tensor]


def _of_groups(
    reduce: Reduce,
    environment: Environment,
    policy: nn.Module,
    instances: Instances,
    actions: Tensor,
) -> Tensor:
    """Return `reduce` of the scores of B groups of n.

    They are computed all at once where torch.func can map the policy, elsewhere one by one.
    """
    parameters = [p for p in policy.parameters() if p.requires_grad]
    count, n = actions.shape[:2]
    if isinstance(environment, VectorisedEnvironment):
        inputs = environment.trajectory_inputs(instances, actions)
        try:
            return reduce(VectorisedScores(environment, policy, inputs), count, n, parameters)
        except (RuntimeError, ValueError, IndexError):
            # No batch dimension, or an operation that cannot be mapped (a GRU's): below goes any
            # policy, or says what is wrong.
            pass

    def of_instance(b: int) -> Tensor:
        instance = environment.select(instances, b)
        return reduce(_batched_scores(environment, policy, instance, actions[b]), 1, n, parameters)

    return torch.cat([of_instance(b) for b in range(count)])


@dataclass(frozen=True)
class VectorisedScores:
    """Scores by differentiating one trajectory's log π, mapped over trajectories.

    `inputs` [M, ...] hold a row of each.
    """

    environment: VectorisedEnvironment
    policy: nn.Module
    inputs: tuple[Tensor, ...]

    @property
    def chunk(self) -> int:
        width = sum(
            p.numel() * p.element_size() for p in self.policy.parameters() if p.requires_grad
        )
        return max(1, min(VECTORISED_CHUNK, CHUNK_BYTES // max(width, 1)))

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
        return [gradients[name].flatten(1) for name in values]
