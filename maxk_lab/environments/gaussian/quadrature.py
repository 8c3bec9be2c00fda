"""Cells for integrals over a one-dimensional normal distribution, and their probabilities.

They are small enough for a function to be constant in each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

# The reach of the cells in standard deviations: less than 1e-18 lies beyond, and counts as the
# outermost cells.
REACH = 9.0
# Cells that a stretch between two breakpoints has at least, however short it is.
LEAST_CELLS = 200


def cell_edges(mean: float, scale: float, breakpoints: Sequence[float], cells: int) -> Tensor:
    """Edges [C + 1] of about `cells` cells over mean ± REACH · scale.

    They are the breakpoints inside, and evenly spaced ones between.
    """
    low, high = mean - REACH * scale, mean + REACH * scale
    marks = [low, *sorted({point for point in breakpoints if low < point < high}), high]
    parts = []
    for start, stop in pairwise(marks):
        count = max(math.ceil(cells * (stop - start) / (high - low)), LEAST_CELLS)
        parts.append(torch.linspace(start, stop, count + 1, dtype=torch.float64)[:-1])
    return torch.cat([*parts, torch.tensor([high], dtype=torch.float64)])


def halved(edges: Tensor) -> Tensor:
    """The edges of the same cells cut in half, [2C + 1]."""
    halves = edges.new_empty(2 * len(edges) - 1)
    halves[::2] = edges
    halves[1::2] = centres(edges)
    return halves


def centres(edges: Tensor) -> Tensor:
    """The middle of each cell, [C]."""
    return (edges[:-1] + edges[1:]) / 2


def cell_probabilities(edges: Tensor, mean: Tensor, log_scale: Tensor) -> Tensor:
    """The probability of each cell under N(mean, e^(2 log_scale)), [C], differentiable in both.

    What lies beyond the edges counts as the outermost cells: the probabilities sum to one.
    """
    inner = torch.special.ndtr((edges[1:-1] - mean) * torch.exp(-log_scale))
    below = torch.cat([inner.new_zeros(1), inner])
    return torch.cat([inner, inner.new_ones(1)]) - below
