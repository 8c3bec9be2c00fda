"""Per-trajectory scores ψ_i = ∇_θ log π_θ(τ_i) by a batched backward pass.

Index: M trajectories, T decisions, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.errors import LabError

# Trajectories of one batched backward pass.
CHUNK = 16
# The most trajectories, and the most memory, of scores by layers in one chunk.
TOGETHER = 64
TOGETHER_BYTES = 64 * 2**20


class Scores(Protocol):
    """The scores of M trajectories, computed on demand."""

    @property
    def chunk(self) -> int:
        """The number of trajectories per request."""
        ...

    def width(self, parameter: Tensor) -> int:
        """Return the number of columns of a parameter: its elements, or fewer for products."""
        return parameter.numel()

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        """Return the scores of trajectories i..j−1: [j − i, width] per parameter of `block`.

        A block is a subset of the policy's parameters, so that not all scores are in memory at
        once.
        """
        ...


@dataclass(frozen=True)
class BatchedScores(Scores):
    """Scores by a batched backward pass per chunk, for any torch policy.

    `log_probs(i, j)` returns log π of trajectories i..j−1 with its graph.
    """

    log_probs: Callable[[int, int], Tensor]
    chunk: int = CHUNK

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        log_probs = self.log_probs(i, j)
        count = len(log_probs)
        rows = torch.eye(count, dtype=log_probs.dtype, device=log_probs.device)
        gradients = torch.autograd.grad(
            log_probs, block, grad_outputs=rows, is_grads_batched=True, allow_unused=True
        )
        return [
            p.new_zeros(count, p.numel()) if g is None else g.reshape(count, -1)
            for g, p in zip(gradients, block, strict=True)
        ]


def trajectory_scores(log_probs: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Return the scores of c trajectories: log_probs [c] (with graph) → [c, P].

    P is the number of elements of `parameters`. One backward pass is batched over the c
    trajectories. A parameter that log_probs does not depend on has score zero.
    """
    return torch.cat(BatchedScores(lambda i, j: log_probs[i:j])(0, len(log_probs), parameters), 1)


def trained(policy: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a policy that require a gradient."""
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


def chunk_of(scores: Scores, policy: nn.Module) -> int:
    """Return how many trajectories to score together, given the memory of one score."""
    row_bytes = sum(scores.width(p) * p.element_size() for p in trained(policy))
    return max(1, min(TOGETHER, TOGETHER_BYTES // max(row_bytes, 1)))


def check_graph(
    environment: Environment, policy: nn.Module, instance: Instances, actions: Tensor
) -> None:
    """Raise `LabError` if log_probs of the first of actions [M, T] has no gradient."""
    with torch.enable_grad():
        log_probs = environment.log_probs(policy, instance, actions[:1].unsqueeze(0))
    if trained(policy) and not log_probs.requires_grad:
        raise LabError(
            "the environment's log_probs returns a tensor that has no gradient with respect to the "
            "policy's parameters, and scores are that gradient: compute it from the policy without "
            ".detach(), torch.no_grad() or .item()"
        )
