"""The definition of every method by enumeration of subsets, in exact fractions.

w_i = s_i - r_i b_i: s_i sums the statistics of the K-subsets with sample i, and b_i is the `level`
of the baseline's row. The cost grows like C(n, K): use n <= 10 or so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.method import Method

Numbers = Sequence[Fraction]
ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Group:
    """Samples with their rewards, numbers g and importance ratios, and the statistic of K samples.

    `alpha` are the weights of K sorted rewards; `reduced` has the weights of K-1 rewards for
    `subloo`. None is the maximum. The statistic of a subset is multiplied by the product of its
    ratios.
    """

    rewards: Numbers
    g: Numbers
    ratios: Numbers
    k: int
    alpha: Numbers | None
    reduced_alpha: Numbers | None

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.rewards)

    def without(self, i: int) -> Group:
        """Return the group without sample i."""
        rewards, g, ratios = ([*x[:i], *x[i + 1 :]] for x in (self.rewards, self.g, self.ratios))
        return replace(self, rewards=rewards, g=g, ratios=ratios)

    def reduced(self) -> Group:
        """The same samples with the objective of K-1 rewards that `subloo` uses."""
        return replace(self, alpha=self.reduced_alpha, k=self.k - 1)

    def statistics(self, k: int) -> dict[tuple[int, ...], Fraction]:
        """Return the statistic of every K-subset, times the product of its ratios."""
        alpha = [ZERO] * (k - 1) + [ONE] if self.alpha is None else self.alpha
        statistics = {}
        for subset in combinations(range(self.n), k):
            ranked = zip(alpha, sorted(self.rewards[j] for j in subset), strict=True)
            factor = math.prod((self.ratios[j] for j in subset), start=ONE)
            statistics[subset] = factor * sum((a * x for a, x in ranked), ZERO)
        return statistics

    def value(self, k: int | None = None) -> Fraction:
        """Return the mean statistic over all K-subsets."""
        every = self.statistics(self.k if k is None else k)
        return sum(every.values(), ZERO) / len(every)

    def score(self) -> list[Fraction]:
        """s_i: the sum of the statistics of the K-subsets that contain i, over C(n, K)."""
        every = self.statistics(self.k)
        return [
            sum((value for subset, value in every.items() if i in subset), ZERO) / len(every)
            for i in range(self.n)
        ]

    def mean(self, values: Numbers | None = None) -> Fraction:
        """Return the mean of the rewards, or of other values, weighted by g unless all g are 0."""
        g = self.g if any(self.g) else [ONE] * self.n
        values = self.rewards if values is None else values
        return sum((x * y for x, y in zip(g, values, strict=True)), ZERO) / sum(g)


class Sample:
    """Sample i of a group of n, with the other samples: the argument of a baseline's `level`."""

    def __init__(self, group: Group, i: int) -> None:
        self.group, self.i, self.n = group, i, group.n
        self.others = group.without(i)
        self.share = Fraction(group.k, group.n)  # the scale of the score weights


def has_definition(method: Method) -> bool:
    """Return whether the rows define the method's weights by subsets."""
    chosen, base = method.estimator.row, method.baseline.row
    return (chosen.has_objective or chosen.needs_ratios) and base.level is not None


def brute_force(
    method: Method,
    rewards: Tensor,
    *,
    trajectory_weights: dict[str, Tensor] | None = None,
    ratios: Tensor | None = None,
    coefficients: Tensor | None = None,
) -> Tensor:
    """Return the weights of a method that `has_definition`, rounded once."""
    shape = rewards.shape
    g = (trajectory_weights or {}).get(method.needed_weight or "")
    tables = [
        None if x is None else x.double().expand(*shape[:-1], x.shape[-1]).reshape(-1, x.shape[-1])
        for x in (rewards, g, ratios, coefficients)
    ]
    rows = [
        _weights(method, *([] if x is None else [*map(Fraction, x[p].tolist())] for x in tables))
        for p in range(math.prod(shape[:-1]))
    ]
    numbers = [[float(weight) for weight in row] for row in rows]
    return torch.tensor(numbers, dtype=torch.float64).reshape(shape)


def _weights(
    method: Method, rewards: Numbers, g: Numbers, ratios: Numbers, coefficients: Numbers
) -> list[Fraction]:
    objective = method.objective_at(len(rewards))
    row, params = method.baseline.row, dict[str, Any]()
    if method.fit is None:
        for name, value in method.baseline.params.items():
            several = [*map(Fraction, value)] if isinstance(value, tuple) else value
            params[name] = Fraction(value) if isinstance(value, float) else several
    elif row.parameter is None:
        params["coefficients"] = coefficients
    else:
        params[row.parameter.name] = coefficients if row.dimension else coefficients[0]
    is_max = objective.is_max
    group = Group(
        rewards,
        g,
        ratios or [ONE] * len(rewards),
        objective.k,
        None if is_max else objective.exact_weights,
        None if is_max or objective.k == 1 else objective.exact_reduced,
    )
    assert row.level is not None
    levels = [row.level(Sample(group, i), **params) for i in range(group.n)]
    return [s - r * b for s, r, b in zip(group.score(), group.ratios, levels, strict=True)]
