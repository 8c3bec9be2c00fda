"""Per-trajectory scores ψ_i = ∇_θ log π_θ(τ_i) of a torch policy and their products, in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

CHUNK = 16
MEMORY_BYTES = 512 * 2**20


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


def score_gram(
    scores: Scores,
    count: int,
    parameters: Sequence[Tensor],
    *,
    directions: Tensor | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> tuple[Tensor, Tensor]:
    """Return Ψ Ψᵀ [M, M] and products with given directions Ψ Dᵀ [M, D], both float64.

    Ψ [M, P] is never held whole. `directions` is [D, P] or None (D = 0). The scores of the `count`
    = M trajectories are held for one block of parameters at a time, as many as fit `memory_bytes`
    (at least one parameter tensor), and every block costs one more pass over the trajectories.
    Without directions, their products are all that is asked for, and they may have fewer columns.
    """
    if directions is None:
        scores = scores.of_products()
    blocks = _blocks(parameters, scores.width, max(1, memory_bytes // (8 * max(count, 1))))
    gram = torch.zeros(count, count, dtype=torch.float64, device=parameters[0].device)
    start = 0
    products = torch.zeros(count, 0 if directions is None else len(directions), dtype=torch.float64)
    for block in blocks:
        held = _block_scores(scores, count, block)
        width = held.shape[1]
        if directions is not None:
            # One product per direction, so that its digits do not depend on the other directions.
            own = [held @ direction[start : start + width].to(held) for direction in directions]
            products += torch.stack(own, 1).cpu()
        gram.addmm_(held, held.T)
        start += width
    return gram.cpu(), products


def squared_norms(
    log_probs: Callable[[int, int], Tensor],
    count: int,
    parameters: Sequence[Tensor],
    *,
    chunk: int = CHUNK,
) -> Tensor:
    """Return ‖ψ_i‖² of M trajectories of any torch policy, exact: [M] float64.

    `log_probs` is as in `BatchedScores`, `count` is M.
    """
    return norms_of_scores(BatchedScores(log_probs, chunk), count, parameters)


def norms_of_scores(scores: Scores, count: int, parameters: Sequence[Tensor]) -> Tensor:
    """‖ψ_i‖² of M trajectories, [M] float64, holding the scores of one chunk at a time."""
    scores = scores.of_products()
    norms = []
    for i in range(0, count, scores.chunk):
        parts = scores(i, min(i + scores.chunk, count), parameters)
        # The vector norm accumulates in float64 without a copy of the scores.
        each = [torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts]
        norms.append(torch.stack(each).square().sum(0).cpu())
    return torch.cat(norms)


def grams_of_scores(
    scores: Scores,
    groups: int,
    n: int,
    parameters: Sequence[Tensor],
    *,
    memory_bytes: int = MEMORY_BYTES,
) -> Tensor:
    """Return the Gram matrices of `groups` consecutive groups of n trajectories.

    They are [groups, n, n] float64; there are no products across groups. The scores of as many
    whole groups as fit `memory_bytes` are held at a time, of one group at least.
    """
    scores = scores.of_products()
    width = sum(map(scores.width, parameters))
    size = n * max(1, memory_bytes // (8 * max(n * width, 1)))
    grams = []
    for first in range(0, groups * n, size):
        held = _block_scores(scores, min(size, groups * n - first), parameters, first).view(
            -1, n, width
        )
        grams.append((held @ held.mT).cpu())
    return torch.cat(grams)


def _block_scores(scores: Scores, count: int, block: Sequence[Tensor], first: int = 0) -> Tensor:
    """The scores of trajectories first..first + count − 1, [count, width of `block`] float64."""
    width = sum(map(scores.width, block))
    held = torch.empty(count, width, dtype=torch.float64, device=block[0].device)
    for i in range(0, count, scores.chunk):
        j = min(i + scores.chunk, count)
        torch.cat(
            [part.double() for part in scores(first + i, first + j, block)], dim=1, out=held[i:j]
        )
    return held


def _blocks(
    parameters: Sequence[Tensor], width: Callable[[Tensor], int], columns: int
) -> Iterator[list[Tensor]]:
    """Yield consecutive parameters, at most `columns` wide together, or a wider one alone."""
    block: list[Tensor] = []
    size = 0
    for parameter in parameters:
        if block and size + width(parameter) > columns:
            yield block
            block, size = [], 0
        block.append(parameter)
        size += width(parameter)
    if block:
        yield block
