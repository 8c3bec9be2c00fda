"""Products of scores in float64: Gram matrices and norms, without all scores in memory at once.

Index: M trajectories, P parameters, D directions, C sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from maxk_lab.gradients.scores.per_trajectory import Scores

MEMORY_BYTES = 512 * 2**20
# Rows of a Gram matrix in one product, and the memory of the float64 factors.
ROWS = 128
WIDE_BYTES = 64 * 2**20


def score_gram(
    scores: Scores,
    count: int,
    parameters: Sequence[Tensor],
    *,
    directions: Tensor | None = None,
    coefficients: Tensor | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return Ψ Ψᵀ [M, M], products with directions Ψ Dᵀ [M, D], and sums C Ψ [C, P], all float64.

    Ψ [M, P] is never in memory as a whole. `directions` is [D, P] or None (D = 0); with directions,
    the scores need a column per element of every parameter. `coefficients` is [C, M] or None (C =
    0); the sums have the columns of the scores. A block has as many columns as fit `memory_bytes`
    for the `count` = M trajectories, in the precision of the parameters. Each block costs one more
    pass over the trajectories.
    """
    gram = torch.zeros(count, count, dtype=torch.float64, device=parameters[0].device)
    products = torch.zeros(count, 0 if directions is None else len(directions), dtype=torch.float64)
    coefficients = torch.zeros(0, count) if coefficients is None else coefficients
    sums = []
    together = max(1, WIDE_BYTES // (8 * max(count, 1)))
    start = 0
    for held in _columns(scores, range(count), parameters, memory_bytes):
        for piece in torch.split(held, together, 1):
            wide, stop = piece.double(), start + piece.shape[1]
            if directions is not None:
                # One product per direction: its digits must not depend on other directions.
                by_direction = [wide @ direction[start:stop].to(wide) for direction in directions]
                products += torch.stack(by_direction, 1).cpu()
            if len(coefficients):
                sums.append((coefficients.to(wide) @ wide).cpu())
            for i in range(0, count, ROWS):  # the lower triangle is enough
                gram[i:, i : i + ROWS].addmm_(wide[i:], wide[i : i + ROWS].T)
            start = stop
    for i in range(0, count, ROWS):
        gram[i : i + ROWS, i + ROWS :] = gram[i + ROWS :, i : i + ROWS].T
    no_sums = torch.zeros(len(coefficients), 0, dtype=torch.float64)
    return gram.cpu(), products, torch.cat([no_sums, *sums], 1)


def norms_of_scores(scores: Scores, count: int, parameters: Sequence[Tensor]) -> Tensor:
    """Return ‖ψ_i‖² of M trajectories, [M] float64, from the scores of one chunk at a time."""
    norms = []
    for i in range(0, count, scores.chunk):
        parts = scores(i, min(i + scores.chunk, count), parameters)
        # The vector norm accumulates in float64 without a copy of the scores.
        each = [torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64) for piece in parts]
        norms.append(torch.stack(each).square().sum(0).cpu())
    return torch.cat(norms)


def _columns(
    scores: Scores, rows: range, parameters: Sequence[Tensor], memory_bytes: int
) -> Iterator[Tensor]:
    """Yield the scores of some trajectories in blocks of columns that fit the memory."""
    stops = list(accumulate(map(scores.width, parameters)))
    dtype = max((p.dtype for p in parameters), key=lambda dtype: dtype.itemsize)
    size = max(1, memory_bytes // (dtype.itemsize * max(len(rows), 1)))
    for first in range(0, stops[-1], size):
        last = min(first + size, stops[-1])
        ends = list(zip(parameters, [0, *stops[:-1]], stops, strict=True))
        block = [(p, start) for p, start, stop in ends if start < last and stop > first]
        held = torch.empty(len(rows), last - first, dtype=dtype, device=parameters[0].device)
        for i in range(0, len(rows), scores.chunk):
            piece = rows[i : i + scores.chunk]
            made = scores(piece.start, piece.stop, [p for p, _ in block])
            inside = [
                columns[:, max(first - start, 0) : last - start]
                for columns, (_, start) in zip(made, block, strict=True)
            ]
            torch.cat(inside, 1, out=held[i : i + len(piece)])
        yield held
