"""The definition of every method by enumeration of subsets, in exact fractions.

w_i = s_i - r_i b_i: s_i sums the statistics of the K-subsets with sample i, and b_i is the `level`
of the baseline's row. The cost grows like C(n, K): use n <= 10 or so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective

Numbers = Sequence[Fraction]


def _product(ratios: Numbers) -> Fraction:
    return math.prod(ratios, start=Fraction(1))


def _first_order(ratios: Numbers) -> Fraction:
    return 1 + sum((r - 1 for r in ratios), Fraction(0))


@dataclass(frozen=True)
class Group:
    """Samples with their rewards, numbers g and importance ratios, and the statistic of K of them.

    `alpha` are the weights of K sorted rewards; None stands for the maximum. `factor` gives what a
    subset counts from its ratios.
    """

    rewards: Numbers
    g: Numbers
    ratios: Numbers
    objective: Objective
    alpha: Numbers | None
    factor: Callable[[Numbers], Fraction] = _product

    def without(self, i: int) -> Group:
        """The group without sample i."""
        rewards, g, ratios = ([*x[:i], *x[i + 1 :]] for x in (self.rewards, self.g, self.ratios))
        return replace(self, rewards=rewards, g=g, ratios=ratios)

    def reduced(self) -> Group:
        """The same samples with the objective of K-1 rewards, as `subloo` has it."""
        alpha = None if self.alpha is None else self.objective.exact_reduced
        return replace(self, alpha=alpha, objective=Objective("max", self.objective.k - 1))

    def statistics(self, k: int) -> list[tuple[tuple[int, ...], Fraction]]:
        """Every K-subset of the samples, and its statistic times its factor."""
        return [(subset, self._statistic(subset)) for subset in combinations(range(self.n), k)]

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.rewards)

    def _statistic(self, subset: tuple[int, ...]) -> Fraction:
        rewards = sorted(self.rewards[j] for j in subset)
        statistic = rewards[-1]
        if self.alpha is not None:
            statistic = sum((a * x for a, x in zip(self.alpha, rewards, strict=True)), Fraction(0))
        return self.factor([self.ratios[j] for j in subset]) * statistic

    def value(self, k: int | None = None) -> Fraction:
        """The mean statistic over all K-subsets."""
        every = self.statistics(self.objective.k if k is None else k)
        return sum((statistic for _, statistic in every), Fraction(0)) / len(every)

    def score(self) -> list[Fraction]:
        """s_i: the sum of the statistics of the K-subsets that contain i, over C(n, K)."""
        every = self.statistics(self.objective.k)
        return [
            sum((statistic for subset, statistic in every if i in subset), Fraction(0)) / len(every)
            for i in range(self.n)
        ]

    def mean(self, values: Numbers | None = None) -> Fraction:
        """The mean of the rewards, or of other values, each counting with its g.

        All count alike where every g is 0.
        """
        g = self.g if any(self.g) else [Fraction(1)] * self.n
        values = self.rewards if values is None else values
        return sum((x * y for x, y in zip(g, values, strict=True)), Fraction(0)) / sum(g)


@dataclass(frozen=True)
class Sample:
    """Sample i of a group: what the level of a baseline is made of."""

    group: Group
    i: int

    @property
    def n(self) -> int:
        """The number of samples in the group."""
        return self.group.n

    @property
    def share(self) -> Fraction:
        """K/n, the scale of the score weights."""
        return Fraction(self.group.objective.k, self.n)

    @property
    def others(self) -> Group:
        """The samples without this one."""
        return self.group.without(self.i)


def has_definition(method: Method) -> bool:
    """Whether the rows say what the method's weights are by definition."""
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
    """The weights of a method that `has_definition`, `[..., n]` to `[..., n]`, rounded once.

    The arguments are those of `Method.weights`.
    """
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
    objective, base = method.objective, method.baseline
    if method.fit is None:
        params: dict[str, Any] = {
            name: [*map(Fraction, value)] if isinstance(value, tuple) else _exact(value)
            for name, value in base.params.items()
        }
    elif base.row.parameter is None:
        params = {"coefficients": coefficients}
    else:
        several = base.row.dimension is not None
        params = {base.row.parameter.name: coefficients if several else coefficients[0]}
    group = Group(
        rewards,
        g,
        ratios or [Fraction(1)] * len(rewards),
        objective,
        None if objective.is_max else objective.exact_weights,
        _first_order if method.estimator.row.name.endswith("first_order") else _product,
    )
    assert base.row.level is not None
    levels = [base.row.level(Sample(group, i), **params) for i in range(len(rewards))]
    return [s - r * b for s, r, b in zip(group.score(), group.ratios, levels, strict=True)]


def _exact(value: Any) -> Any:
    return Fraction(value) if isinstance(value, float) else value
