"""Lines on sorted gaps: score weights, values and baselines of n rewards, as coefficients.

In rank order, with gaps d_j = R_(j+1) - R_(j) >= 0, j = 1..n-1, a line is

    w_(i) = sum_{j<i} up_j d_j + sum_j level_j d_j + top * R_(base) + constant

The score weights of the maximum are a line with base = n, because s_(i+1) - s_(i) = d_i C(i-1, K-1)
/ C(n, K) and s_(n) = (K/n) R_(n). The terms of each sum have one sign, so nothing cancels. Equal
rewards get equal weights. A line with `top` = 0 ignores any constant added to the rewards. The
weights of a sum of lines are the sum of their weights.

Each function caches its line by n, K and the objective E[sum_j alpha_j R_(j:K)]. None is the
maximum: its lines take O(n) by one recurrence. For any other objective, let X be the number of the
K-1 other samples of a subset that lie below gap j. X is hypergeometric, so

    s_(j+1) - s_(j) = d_j K (n-K) / (n (n-1)) E[alpha_(X+1)],     X of K-1 drawn from n-2
    s_i for i <= j holds d_j times -(K/n) E[A_(X+1)],             X of K-1 drawn from n-1

where j-1 of the n-2 or n-1 samples lie below the gap, A_m = alpha_1 + ... + alpha_m, and levels
count from R_(n), which A_K multiplies. Lines are subtracted on the partial sums A, in exact
fractions, and never on rewards. Source of the objective: OrderGrad, arXiv 2606.06096. This module
does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from maxk_lab.estimators.objectives import Objective, Weights

Floats = NDArray[np.float64]
# The most probabilities that `hypergeometric_means` holds in memory.
_CHANCES = 2**18


@dataclass(frozen=True, eq=False)
class Line:
    """The coefficients of a line: `up` and `level` float64 `[n-1]`.

    `top` multiplies the reward at index `base`. Only lines with equal `base` can be added.
    """

    up: Floats
    level: Floats
    top: float
    base: int = -1
    # A tensor `[..., 1]` if the constant differs between groups.
    constant: float | Tensor = 0.0

    def __add__(self, other: Line | float | Tensor) -> Line:
        if not isinstance(other, Line):
            return replace(self, constant=self.constant + other)
        assert self.base == other.base
        constant = self.constant + other.constant
        top = self.top + other.top
        return Line(self.up + other.up, self.level + other.level, top, self.base, constant)

    def __sub__(self, other: Line | float) -> Line:
        return self + -1.0 * other

    def __rmul__(self, factor: float) -> Line:
        constant, top = factor * self.constant, factor * self.top
        return Line(factor * self.up, factor * self.level, top, self.base, constant)


@lru_cache(maxsize=64)
def score(n: int, k: int, objective: Objective | None = None) -> Line:
    """Return the line of s_i: the statistic summed over the K-subsets with i, over C(n, K)."""
    if objective is None:
        up = rank_weights(n, k)[:-1]
        return Line(up, -up, k / n)
    alpha = objective.exact_weights
    base = _base(n, alpha)
    level = k / n * _levels(base, _partial_sums(alpha)[1:], n - 1, range(n - 1))
    return Line(_ups(n, alpha), level, float(sum(alpha) * k / n), base)


@lru_cache(maxsize=64)
def value(n: int, k: int, objective: Objective | None = None) -> Line:
    """Return the line of the mean of the statistic over all K-subsets, equal for all samples."""
    if objective is None:
        # C(j, K) / C(n, K) is the probability that all K samples lie below gap j.
        level = -rank_weights(n, k)[:-1] * np.arange(1, n) / k
        return Line(np.zeros(n - 1), level, 1.0)
    base = _base(n, objective.exact_weights)
    level = _levels(base, _partial_sums(objective.exact_weights), n, range(1, n))
    return Line(np.zeros(n - 1), level, objective.mass, base)


@lru_cache(maxsize=64)
def left_out_value(n: int, k: int, objective: Objective | None = None) -> Line:
    """Return the line of the value of the other n-1 samples, n / (n-K) * (value - s_i), K < n.

    The coefficients are subtracted, which is exact.
    """
    ratio = n / (n - k)
    if objective is None:
        up = rank_weights(n, k)[:-1]
        return Line(-ratio * up, -ratio / k * (np.arange(1, n) - k).clip(0) * up, 1.0)
    alpha = objective.exact_weights
    base = _base(n, alpha)
    level = _levels(base, _partial_sums(alpha), n - 1, range(n - 1))
    return Line(-ratio * _ups(n, alpha), level, objective.mass, base)


@lru_cache(maxsize=64)
def group_mean(n: int, k: int, objective: Objective | None = None) -> Line:
    """Return the line of s_i minus the mean of s over the group."""
    up = rank_weights(n, k)[:-1] if objective is None else _ups(n, objective.exact_weights)
    return Line(up, -up * np.arange(n - 1, 0, -1) / n, 0.0)


@lru_cache(maxsize=64)
def subloo(n: int, k: int, objective: Objective | None = None) -> Line:
    """Return the line of s_i minus K/n times the left-out value for K-1 rewards (K >= 2).

    The weight is the amount that sample i adds to its subsets. For the maximum it is a cumulative
    sum that starts at 0. For other objectives, the left-out value is of the reduced objective, and
    the level is a mean of A_(X+1) minus the reduced A_X over X.
    """
    if objective is None:
        # The step from rank i to i + 1 is d_i C(i, K-1) / C(n, K).
        return Line(rank_weights(n, k)[1:], np.zeros(n - 1), 0.0)
    alpha, reduced = objective.exact_weights, objective.exact_reduced
    pairs = zip(_partial_sums(alpha)[1:], _partial_sums(reduced), strict=True)
    added = _table(full - rest for full, rest in pairs)
    level = -k / n * hypergeometric_means(added, n - 1, range(n - 1))
    return Line(_ups(n, alpha) + k / (n - k + 1) * _ups(n, reduced), level, 0.0)


def _base(n: int, alpha: Weights) -> int:
    """Return the index of the reward that levels count from: the median of the absolute weights.

    No term is then larger than the rewards with a weight, even if other rewards are huge.
    """
    half = sum(map(abs, alpha)) / 2
    order = next(m for m, reached in enumerate(accumulate(map(abs, alpha)), 1) if reached >= half)
    return -(-order * n // len(alpha)) - 1


def _levels(base: int, sums: list[Fraction], population: int, marked: range) -> Floats:
    """Return the level of every gap `[n-1]`: -A below the base, A_K - A above it."""
    below, above = _table(-x for x in sums), _table(sums[-1] - x for x in sums)
    return np.concatenate(
        [
            hypergeometric_means(below, population, marked[:base]),
            hypergeometric_means(above, population, marked[base:]),
        ]
    )


def _table(values: Iterable[Fraction]) -> Floats:
    return np.array([float(value) for value in values])


def _partial_sums(alpha: Weights) -> list[Fraction]:
    """Return A_0 = 0, A_1, ..., A_K."""
    return list(accumulate(alpha, initial=Fraction(0)))


def _ups(n: int, alpha: Weights) -> Floats:
    """Return the steps of the score weights, float64 `[n-1]`: zeros if K = n."""
    k = len(alpha)
    if k == n:
        return np.zeros(n - 1)
    share = k * (n - k) / (n * (n - 1))
    return share * hypergeometric_means(_table(alpha), n - 2, range(n - 1))


def _normal(values: Floats) -> Floats:
    """Return values >= 0 with subnormal numbers set to 0: they have lost digits."""
    return np.where(values < np.finfo(float).tiny, 0.0, values)


@lru_cache(maxsize=64)
def rank_weights(n: int, k: int) -> Floats:
    """Return a_i = C(i-1, K-1) / C(n, K) for ranks i = 1..n, float64 `[n]`; their sum is 1.

    The recurrence a_n = K/n, a_i = a_{i+1} (i+1-K) / i starts at the largest term.
    Source: PKPO, arXiv 2505.15201, Theorem 1.
    """
    rank = np.arange(n - 1.0, 0.0, -1.0)
    factors = np.concatenate([[k / n], ((rank + 1 - k) / rank).clip(0)])
    return _normal(np.cumprod(factors)[::-1])


def hypergeometric_means(table: Floats, population: int, marked: range) -> Floats:
    """Return E[table[X]] for every number of `marked`, float64 `[m]`; X is hypergeometric.

    X counts the marked elements in `draws` from the `population` without replacement, and `table`
    `[draws + 1]` has a value for each X = 0..draws. The probabilities are products of ratios of
    neighbours, from the likeliest X outwards, over their sum. All terms are positive, so each has a
    small relative error; underflow gives 0. `scipy.stats.hypergeom` takes 170 times as long at
    n = 4 096 and K = 64.
    """
    draws = len(table) - 1
    size = max(1, _CHANCES // len(table))
    means = [np.empty(0)]
    for start in range(0, len(marked), size):
        chunk = marked[start : start + size]
        # X outside low..high has probability 0 for every number of this chunk.
        low, high = max(0, draws - population + chunk[0]), min(draws, chunk[-1])
        chances = _chances(draws, population, np.arange(chunk.start, chunk.stop), low, high)
        means.append(chances @ table[low : high + 1])
    return np.concatenate(means)


def _chances(draws: int, population: int, marked: NDArray[Any], low: int, high: int) -> Floats:
    """Return P(X = x) for x = low..high (columns) and each number of `marked` (rows)."""
    good = marked.astype(float)[:, None]
    x = np.arange(low, high, dtype=float)
    # P(x+1) / P(x) = up / down; a factor is 0 if x or x + 1 is impossible.
    up = ((good - x) * (draws - x)).clip(0)
    down = ((x + 1) * (population - good - draws + x + 1)).clip(0)
    rising = up >= down
    from_mode = np.where(rising, 1.0, up / np.where(rising, 1.0, down)).cumprod(1)
    to_mode = np.where(rising & (up > 0), down / np.where(up > 0, up, 1.0), 1.0)
    mode = np.ones_like(good)
    lower = np.concatenate([to_mode[:, ::-1].cumprod(1)[:, ::-1], mode], axis=1)
    chances = _normal(lower * np.concatenate([mode, from_mode], axis=1))
    chances /= chances.sum(1, keepdims=True)
    return chances
