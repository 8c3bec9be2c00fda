"""Products of scores in float64, Gram matrices and norms, without holding all scores at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from maxk_lab.gradients.scores.per_trajectory import CHUNK, BatchedScores, Scores

MEMORY_BYTES = 512 * 2**20
# Rows of a Gram matrix that are multiplied together, and the memory of what is multiplied, in
# float64.
ROWS = 128
WIDE_BYTES = 64 * 2**20


def score_gram(
    scores: Scores,
    count: int,
    parameters: Sequence[Tensor],
    *,
    directions: Tensor | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> tuple[Tensor, Tensor]:
    """Return Ψ Ψᵀ [M, M] and products with given directions Ψ Dᵀ [M, D], both float64.

    Ψ [M, P] is never held whole. `directions` is [D, P] or None (D = 0). As many columns are held
    at a time as fit `memory_bytes` for the `count` = M trajectories, in the precision of their
    parameters, and each time costs one more pass over the trajectories. Without directions, the
    products of scores are all that is asked for, and these may have fewer columns.
    """
    if directions is None:
        scores = scores.of_products()
    total = sum(map(scores.width, parameters))
    size = max(1, memory_bytes // (max(p.element_size() for p in parameters) * max(count, 1)))
    gram = torch.zeros(count, count, dtype=torch.float64, device=parameters[0].device)
    products = torch.zeros(count, 0 if directions is None else len(directions), dtype=torch.float64)
    for start in range(0, total, size):
        for columns, wide in _held(
            scores, count, parameters, range(start, min(start + size, total))
        ):
            if directions is not None:
                # One product per direction: its digits must not depend on the others.
                own = [
                    wide @ direction[columns.start : columns.stop].to(wide)
                    for direction in directions
                ]
                products += torch.stack(own, 1).cpu()
            for i in range(0, count, ROWS):  # the half below the diagonal is enough
                gram[i:, i : i + ROWS].addmm_(wide[i:], wide[i : i + ROWS].T)
    for i in range(0, count, ROWS):
        gram[i : i + ROWS, i + ROWS :] = gram[i + ROWS :, i : i + ROWS].T
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
        held = _columns(
            scores, range(first, min(first + size, groups * n)), parameters, range(width)
        )
        grouped = held.double().view(-1, n, width)
        grams.append((grouped @ grouped.mT).cpu())
    return torch.cat(grams)


def _held(
    scores: Scores, count: int, parameters: Sequence[Tensor], columns: range
) -> Iterator[tuple[range, Tensor]]:
    """Yield slices of some columns of the scores of all M trajectories, [M, width] float64 each."""
    held = _columns(scores, range(count), parameters, columns)
    size = max(1, WIDE_BYTES // (8 * max(count, 1)))
    for start in range(0, len(columns), size):
        part = columns[start : start + size]
        yield part, held[:, start : start + len(part)].double()


def _columns(
    scores: Scores, trajectories: range, parameters: Sequence[Tensor], columns: range
) -> Tensor:
    """Some columns of the scores of some trajectories, in the precision of the parameters."""
    places: list[tuple[Tensor, int]] = []
    start = 0
    for parameter in parameters:
        stop = start + scores.width(parameter)
        if start < columns.stop and stop > columns.start:
            places.append((parameter, start))
        start = stop
    dtype = max((p.dtype for p, _ in places), key=lambda dtype: dtype.itemsize)
    shape = (len(trajectories), len(columns))
    held = torch.empty(*shape, dtype=dtype, device=parameters[0].device)
    for i in range(0, len(trajectories), scores.chunk):
        rows = trajectories[i : i + scores.chunk]
        found = scores(rows.start, rows.stop, [parameter for parameter, _ in places])
        for part, (_, start) in zip(found, places, strict=True):
            first, last = max(start, columns.start), min(start + part.shape[1], columns.stop)
            to = slice(first - columns.start, last - columns.start)
            held[i : i + len(rows), to] = part[:, first - start : last - start]
    return held
