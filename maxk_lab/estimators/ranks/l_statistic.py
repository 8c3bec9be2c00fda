"""The rules of any objective E[sum_j alpha_j R_(j:K)] that all others are sums of.

Between the ranks j and j + 1 the K-1 other samples of a subset lie below in X ~ hypergeometric
numbers, so the score weights obey

    s_(j+1) - s_(j) = d_j K (n-K) / (n (n-1)) E[alpha_(X+1)],     X of K-1 drawn from n-2
    s_i for i <= j holds d_j times -(K/n) E[A_(X+1)],             X of K-1 drawn from n-1

with j-1 of those drawn from below, and A_m = alpha_1 + ... + alpha_m, if shifts count from R_(n);
A_K, the mass, is what multiplies R_(n). What two rules share is subtracted on the partial sums A,
in exact fractions, and never on rewards. `maximum` has the same for the maximum, in O(n). Source of
the objective: OrderGrad, arXiv 2606.06096.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate

import torch
from torch import Tensor

from maxk_lab.estimators.forms import Weights
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks.combinatorics import cached, hypergeometric_means
from maxk_lab.estimators.ranks.gaps import Rule


def _base(n: int, weights: Weights) -> int:
    """The index of the reward that shifts count from, where half of the absolute weight lies below.

    It is the greatest for the maximum. No term is then larger than the rewards that the objective
    looks at, whatever the others are.
    """
    half = sum(map(abs, weights)) / 2
    order = next(m for m, reached in enumerate(accumulate(map(abs, weights)), 1) if reached >= half)
    return -(-order * n // len(weights)) - 1


def _shifts(
    base: int, sums: list[Fraction], population: int, marked: range, device: torch.device
) -> Tensor:
    """The shift of every gap, float64 `[n-1]`.

    Below the base it is the mean of minus the partial sum, above it of what is left of the mass.
    """
    below, above = [-part for part in sums], [sums[-1] - part for part in sums]
    return torch.cat(
        [
            hypergeometric_means(_table(below, device), population, marked[:base]),
            hypergeometric_means(_table(above, device), population, marked[base:]),
        ]
    )


def _table(values: Iterable[Fraction], device: torch.device) -> Tensor:
    return torch.tensor([float(value) for value in values], dtype=torch.float64, device=device)


def _partial_sums(weights: Weights) -> list[Fraction]:
    """A_0 = 0, A_1, ..., A_K."""
    return list(accumulate(weights, initial=Fraction(0)))


def _steps(n: int, weights: Weights, device: torch.device) -> Tensor:
    """The steps of the score weights of alpha = `weights` at the gaps.

    They are sum_m alpha_m C(j-1,m-1) C(n-j-1,K-m) / C(n,K).
    """
    k = len(weights)
    if k == n:
        return torch.zeros(n - 1, dtype=torch.float64, device=device)
    share = k * (n - k) / (n * (n - 1))
    return share * hypergeometric_means(_table(weights, device), n - 2, range(n - 1))


@cached
def value(n: int, objective: Objective, device: torch.device) -> Rule:
    """The mean of L over the K-subsets, the same for every sample."""
    base = _base(n, objective.exact_weights)
    shift = _shifts(base, _partial_sums(objective.exact_weights), n, range(1, n), device)
    return Rule(torch.zeros_like(shift), shift, objective.mass, base)


@cached
def score(n: int, objective: Objective, device: torch.device) -> Rule:
    """s_i, the score weights: the sum of L over the K-subsets that contain i, over C(n, K)."""
    k, weights = objective.k, objective.exact_weights
    base = _base(n, weights)
    shift = k / n * _shifts(base, _partial_sums(weights)[1:], n - 1, range(n - 1), device)
    return Rule(_steps(n, weights, device), shift, float(sum(weights) * k / n), base)


@cached
def left_out_value(n: int, objective: Objective, device: torch.device) -> Rule:
    """The objective's value among the other n-1 samples (K < n).

    It is n / (n-K) * (value - s_i), as for the maximum.
    """
    k, weights = objective.k, objective.exact_weights
    base = _base(n, weights)
    shift = _shifts(base, _partial_sums(weights), n - 1, range(n - 1), device)
    return Rule(-n / (n - k) * _steps(n, weights, device), shift, objective.mass, base)


@cached
def group_mean(n: int, objective: Objective, device: torch.device) -> Rule:
    """s_i minus the mean of s over the group."""
    steps = _steps(n, objective.exact_weights, device)
    higher = torch.arange(n - 1, 0, -1, dtype=torch.float64, device=device)
    return Rule(steps, -steps * higher / n, 0.0)


@cached
def subloo(n: int, objective: Objective, device: torch.device) -> Rule:
    """s_i - (K/n) * left-out value of the reduced objective of K-1 rewards (K >= 2).

    It is what i adds to its subsets.

    Both shifts are means over the same X, so their difference is the mean of A_(X+1) minus the
    reduced A_X.
    """
    k, weights, reduced = objective.k, objective.exact_weights, objective.exact_reduced
    added = [
        own - left
        for own, left in zip(_partial_sums(weights)[1:], _partial_sums(reduced), strict=True)
    ]
    shift = -k / n * hypergeometric_means(_table(added, device), n - 1, range(n - 1))
    steps = _steps(n, weights, device) + k / (n - k + 1) * _steps(n, reduced, device)
    return Rule(steps, shift, 0.0)
