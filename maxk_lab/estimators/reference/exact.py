"""A group of rewards as exact fractions: value and score weights; tensors cut into groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

Group = Sequence[Fraction]


# alpha_1 to alpha_K of an objective; None for the maximum.
Alpha = Sequence[Fraction] | None


def statistic(subset: Group, alpha: Alpha = None) -> Fraction:
    """The maximum, or the sum of alpha_j times the j-th of the sorted rewards."""
    if alpha is None:
        return max(subset)
    return sum((a * x for a, x in zip(alpha, sorted(subset), strict=True) if a), Fraction(0))


def value(group: Group, k: int, alpha: Alpha = None) -> Fraction:
    """The mean over all K-subsets of their statistic."""
    subsets = list(combinations(group, k))
    return sum((statistic(subset, alpha) for subset in subsets), Fraction(0)) / len(subsets)


def score(group: Group, k: int, alpha: Alpha = None) -> list[Fraction]:
    """s_i: the sum of the statistics of the K-subsets that contain i, over C(n, K)."""
    totals = [Fraction(0)] * len(group)
    for subset in combinations(range(len(group)), k):
        found = statistic([group[j] for j in subset], alpha)
        for i in subset:
            totals[i] += found
    return [total / math.comb(len(group), k) for total in totals]


def others(group: Group, i: int) -> Group:
    """The group without sample i."""
    return [*group[:i], *group[i + 1 :]]


def left_out_values(group: Group, k: int, alpha: Alpha = None) -> list[Fraction]:
    """The value of the other samples, for every i."""
    return [value(others(group, i), k, alpha) for i in range(len(group))]


def curve(group: Group) -> list[Fraction]:
    """The value for every K = 1..n."""
    return [value(group, k) for k in range(1, len(group) + 1)]


def minus(weights: Sequence[Fraction], baseline: Sequence[Fraction]) -> list[Fraction]:
    """Sample by sample."""
    return [w - b for w, b in zip(weights, baseline, strict=True)]


def mean(group: Group, g: Group | None = None) -> Fraction:
    """The mean, each value counting with its g, or all alike where every g is 0."""
    g = g if g is not None and any(g) else [Fraction(1)] * len(group)
    return sum((x * y for x, y in zip(g, group, strict=True)), Fraction(0)) / sum(g, Fraction(0))


def deviation(group: Group) -> Fraction:
    """The standard deviation with ddof = 1, its square root taken in floating point near 1."""
    reach = max(abs(x) for x in group) or Fraction(1)
    middle = mean(group)
    variance = sum(((x - middle) ** 2 for x in group), Fraction(0)) / (len(group) - 1)
    return reach * Fraction(math.sqrt(variance / reach**2))


def fractions(row: Sequence[float]) -> list[Fraction]:
    """Every number as an exact fraction."""
    return [Fraction(x) for x in row]


def per_group(
    function: Callable[..., Any], rewards: Tensor, *arguments: int, **params: Any
) -> Tensor:
    """`function` of every group of rewards `[..., n]`.

    A parameter that is a tensor is cut into groups likewise.
    """
    tables = {name: _rows(each) for name, each in params.items() if isinstance(each, Tensor)}
    plain = {name: each for name, each in params.items() if name not in tables}
    results = []
    for position, group in enumerate(_rows(rewards)):
        own = {name: fractions(table[position]) for name, table in tables.items()}
        results.append(function(fractions(group), *arguments, **plain, **own))
    rows = [[float(x) for x in r] if isinstance(r, Sequence) else float(r) for r in results]
    table = torch.tensor(rows, dtype=torch.float64)
    return table.reshape([*rewards.shape[:-1], *table.shape[1:]])


def _rows(table: Tensor) -> list[list[float]]:
    rows: list[list[float]] = table.double().reshape(-1, table.shape[-1]).tolist()
    return rows
