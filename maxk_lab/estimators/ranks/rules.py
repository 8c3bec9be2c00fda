"""The five rules that all others are sums of, for the maximum and for any L-statistic.

Each is computed once for its n samples, K, and objective E[sum_j alpha_j R_(j:K)] of that K; None
stands for the maximum, whose rules take O(n) from one recurrence. For any other, between the ranks
j and j + 1 the K-1 other samples of a subset lie below in X ~ hypergeometric numbers, so the score
weights obey

    s_(j+1) - s_(j) = d_j K (n-K) / (n (n-1)) E[alpha_(X+1)],     X of K-1 drawn from n-2
    s_i for i <= j holds d_j times -(K/n) E[A_(X+1)],             X of K-1 drawn from n-1

with j-1 of those drawn from below, and A_m = alpha_1 + ... + alpha_m, if shifts count from R_(n);
A_K, the mass, is what multiplies R_(n). What two rules share is subtracted on the partial sums A,
in exact fractions, and never on rewards. Source of the objective: OrderGrad, arXiv 2606.06096.

Ratios of binomial coefficients come by recurrence in float64: they are finite for every n and K.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate

import torch
from torch import Tensor

from maxk_lab.estimators.engine import cached
from maxk_lab.estimators.objectives import Objective, Weights
from maxk_lab.estimators.ranks.gaps import Rule

# Chances that `hypergeometric_means` holds at a time.
_CHANCES = 2**18


@cached
def score(n: int, k: int, objective: Objective | None = None) -> Rule:
    """s_i: the sum of the statistic over the K-subsets that contain i, over C(n, K)."""
    if objective is None:
        moves = rank_weights(n, k)[:-1]
        return Rule(moves, -moves, k / n)
    alpha = objective.exact_weights
    base = _base(n, alpha)
    shift = k / n * _shifts(base, _partial_sums(alpha)[1:], n - 1, range(n - 1))
    return Rule(_steps(n, alpha), shift, float(sum(alpha) * k / n), base)


@cached
def value(n: int, k: int, objective: Objective | None = None) -> Rule:
    """The mean of the statistic over the K-subsets, the same for every sample."""
    if objective is None:
        # C(j, K) / C(n, K) per gap j: the chance that all K samples lie below.
        shift = -rank_weights(n, k)[:-1] * _gaps(n) / k
        return Rule(torch.zeros_like(shift), shift, 1.0)
    base = _base(n, objective.exact_weights)
    shift = _shifts(base, _partial_sums(objective.exact_weights), n, range(1, n))
    return Rule(torch.zeros_like(shift), shift, objective.mass, base)


@cached
def left_out_value(n: int, k: int, objective: Objective | None = None) -> Rule:
    """The value of the other n-1 samples, n / (n-K) * (value - s_i) (K < n).

    The subtraction is done on the coefficients, where it is exact.
    """
    ratio = n / (n - k)
    if objective is None:
        moves = rank_weights(n, k)[:-1]
        return Rule(-ratio * moves, -ratio / k * (_gaps(n) - k).clamp(min=0) * moves, 1.0)
    alpha = objective.exact_weights
    base = _base(n, alpha)
    shift = _shifts(base, _partial_sums(alpha), n - 1, range(n - 1))
    return Rule(-ratio * _steps(n, alpha), shift, objective.mass, base)


@cached
def group_mean(n: int, k: int, objective: Objective | None = None) -> Rule:
    """s_i minus the mean of s over the group."""
    alpha = None if objective is None else objective.exact_weights
    steps = rank_weights(n, k)[:-1] if alpha is None else _steps(n, alpha)
    return Rule(steps, -steps * (n - _gaps(n)) / n, 0.0)


@cached
def subloo(n: int, k: int, objective: Objective | None = None) -> Rule:
    """s_i minus K/n times the left-out value of the reduced objective of K-1 rewards (K >= 2).

    It is what i adds to its subsets; for the maximum a cumulative sum that starts at 0. Else both
    shifts are means over the same X, and their difference is that of A_(X+1) less the reduced A_X.
    """
    if objective is None:
        # From rank i to the next it grows by d_i C(i, K-1) / C(n, K): the K-1 others are below.
        moves = rank_weights(n, k)[1:]
        return Rule(moves, torch.zeros_like(moves), 0.0)
    alpha, reduced = objective.exact_weights, objective.exact_reduced
    pairs = zip(_partial_sums(alpha)[1:], _partial_sums(reduced), strict=True)
    added = _table(whole - left for whole, left in pairs)
    shift = -k / n * hypergeometric_means(added, n - 1, range(n - 1))
    return Rule(_steps(n, alpha) + k / (n - k + 1) * _steps(n, reduced), shift, 0.0)


def _gaps(n: int) -> Tensor:
    """The numbers j = 1..n-1 of the gaps, float64."""
    return torch.arange(1, n, dtype=torch.float64)


def _base(n: int, alpha: Weights) -> int:
    """The index of the reward that shifts count from, where half of the absolute weight lies below.

    No term is then larger than the rewards that the objective looks at, whatever the others are.
    """
    half = sum(map(abs, alpha)) / 2
    order = next(m for m, reached in enumerate(accumulate(map(abs, alpha)), 1) if reached >= half)
    return -(-order * n // len(alpha)) - 1


def _shifts(base: int, sums: list[Fraction], population: int, marked: range) -> Tensor:
    """The shift of every gap `[n-1]`: minus the partial sum, above the base what is left of it."""
    below, above = _table(-part for part in sums), _table(sums[-1] - part for part in sums)
    return torch.cat(
        [
            hypergeometric_means(below, population, marked[:base]),
            hypergeometric_means(above, population, marked[base:]),
        ]
    )


def _table(values: Iterable[Fraction]) -> Tensor:
    return torch.tensor([float(value) for value in values], dtype=torch.float64)


def _partial_sums(alpha: Weights) -> list[Fraction]:
    """A_0 = 0, A_1, ..., A_K."""
    return list(accumulate(alpha, initial=Fraction(0)))


def _steps(n: int, alpha: Weights) -> Tensor:
    """The steps of the score weights, float64 `[n-1]`; none where K = n."""
    k = len(alpha)
    if k == n:
        return torch.zeros(n - 1, dtype=torch.float64)
    share = k * (n - k) / (n * (n - 1))
    return share * hypergeometric_means(_table(alpha), n - 2, range(n - 1))


def _normal(values: Tensor) -> Tensor:
    """Values >= 0 without those below the smallest normal number, which have lost digits."""
    return torch.where(values < torch.finfo(torch.float64).tiny, 0.0, values)


@cached
def rank_weights(n: int, k: int) -> Tensor:
    """a_i = C(i-1, K-1) / C(n, K) for ranks i = 1..n, float64 `[n]`; their sum is 1.

    a_n = K/n and a_i = a_{i+1} (i+1-K) / i, so every product runs downwards from the largest term.
    Source: PKPO, arXiv 2505.15201, Theorem 1.
    """
    rank = torch.arange(n - 1, 0, -1, dtype=torch.float64)
    factors = torch.cat([rank.new_full((1,), k / n), ((rank + 1 - k) / rank).clamp(min=0)])
    return _normal(factors.cumprod(0).flip(0))


def hypergeometric_means(table: Tensor, population: int, marked: range) -> Tensor:
    """E[table[X]] for every number of `marked`, X of the drawn being marked: float64 `[m]`.

    `table` `[draws + 1]` holds a value for every possible X = 0..draws; `draws` of the `population`
    are drawn without replacement. The chances come from the ratio of neighbours, as products
    downwards from the likeliest X, and their sum: positive terms all along, so that each has a
    small relative error; what underflows counts as 0.
    """
    draws = len(table) - 1
    size = max(1, _CHANCES // len(table))
    means = [torch.empty(0, dtype=torch.float64)]
    for start in range(0, len(marked), size):
        part = marked[start : start + size]
        # No X outside has a chance, whatever the number of this part.
        low, high = max(0, draws - population + part[0]), min(draws, part[-1])
        good = torch.arange(part.start, part.stop, dtype=torch.float64)
        means.append(_chances(draws, population, good, low, high) @ table[low : high + 1])
    return torch.cat(means)


def _chances(draws: int, population: int, marked: Tensor, low: int, high: int) -> Tensor:
    """P(X = x) for all possible x = low..high (columns) and each number of `marked` (rows)."""
    good = marked[:, None]
    x = torch.arange(low, high, dtype=torch.float64)
    # P(x+1) / P(x) = up / down; a factor is 0, not negative, where x or x + 1 is out of reach.
    up = ((good - x) * (draws - x)).clamp(min=0)
    down = ((x + 1) * (population - good - draws + x + 1)).clamp(min=0)
    rising = up >= down
    from_mode = torch.where(rising, 1.0, up / torch.where(rising, 1.0, down)).cumprod(1)
    to_mode = torch.where(rising & (up > 0), down / torch.where(up > 0, up, 1.0), 1.0)
    one = torch.ones_like(good)
    left = torch.cat([to_mode.flip(1).cumprod(1).flip(1), one], dim=1)
    chances = _normal(left * torch.cat([one, from_mode], dim=1))
    return chances / chances.sum(1, keepdim=True)
