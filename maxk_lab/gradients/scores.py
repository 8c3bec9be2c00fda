"""Per-trajectory scores ψ_i = ∇_θ log π_θ(τ_i) of any torch policy, and their Gram matrix in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

CHUNK = 16
MEMORY_BYTES = 512 * 2**20


def trajectory_scores(log_probs: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The scores of c trajectories: log_probs [c] (with graph) → [c, P], P the number of elements of `parameters`.

    One backward pass batched over the c trajectories. A parameter that log_probs does not depend on has score zero.
    """
    count = len(log_probs)
    rows = torch.eye(count, dtype=log_probs.dtype, device=log_probs.device)
    gradients = torch.autograd.grad(
        log_probs, parameters, grad_outputs=rows, is_grads_batched=True, allow_unused=True
    )
    return torch.cat(
        [
            p.new_zeros(count, p.numel()) if g is None else g.reshape(count, -1)
            for g, p in zip(gradients, parameters, strict=True)
        ],
        dim=1,
    )


def score_gram(
    log_probs: Callable[[int, int], Tensor],
    count: int,
    parameters: Sequence[Tensor],
    *,
    directions: Tensor | None = None,
    chunk: int = CHUNK,
    memory_bytes: int = MEMORY_BYTES,
) -> tuple[Tensor, Tensor]:
    """Gram matrix Ψ Ψᵀ [M, M] and products with given directions Ψ Dᵀ [M, D], both float64; Ψ [M, P] is never held whole.

    `log_probs(i, j)` returns log π of trajectories i..j−1 with its graph; `directions` is [D, P] or None (D = 0). The scores
    are held for one block of parameters at a time, as many as fit `memory_bytes` (at least one parameter tensor), and every
    block costs one more pass over the trajectories.
    """
    blocks = list(_blocks(parameters, max(1, memory_bytes // (8 * max(count, 1)))))
    gram: Tensor | None = None
    start = 0
    products = torch.zeros(count, 0 if directions is None else len(directions), dtype=torch.float64)
    for block in blocks:
        scores = _block_scores(log_probs, count, block, chunk)
        width = scores.shape[1]
        if directions is not None:
            # One product per direction, so that its digits do not depend on the other directions.
            own = [scores @ direction[start : start + width].to(scores) for direction in directions]
            products += torch.stack(own, 1).cpu()
        partial = scores @ scores.T
        gram = partial if gram is None else gram.add_(partial)
        start += width
    assert gram is not None
    return gram.cpu(), products


def squared_norms(
    log_probs: Callable[[int, int], Tensor], count: int, parameters: Sequence[Tensor], *, chunk: int = CHUNK
) -> Tensor:
    """‖ψ_i‖² of M trajectories, [M] float64, holding the scores of one chunk at a time; arguments as in `score_gram`."""
    rows = (
        trajectory_scores(log_probs(i, min(i + chunk, count)), parameters) for i in range(0, count, chunk)
    )
    return torch.cat([scores.double().square().sum(1).cpu() for scores in rows])


def _block_scores(
    log_probs: Callable[[int, int], Tensor], count: int, block: Sequence[Tensor], chunk: int
) -> Tensor:
    width = sum(p.numel() for p in block)
    scores = torch.empty(count, width, dtype=torch.float64, device=block[0].device)
    for i in range(0, count, chunk):
        j = min(i + chunk, count)
        scores[i:j] = trajectory_scores(log_probs(i, j), block)
    return scores


def _blocks(parameters: Sequence[Tensor], columns: int) -> Iterator[list[Tensor]]:
    """Consecutive parameters, at most `columns` elements together (or one parameter that alone is larger)."""
    block: list[Tensor] = []
    size = 0
    for parameter in parameters:
        if block and size + parameter.numel() > columns:
            yield block
            block, size = [], 0
        block.append(parameter)
        size += parameter.numel()
    if block:
        yield block
