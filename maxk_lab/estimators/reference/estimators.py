"""The definition of every on-policy estimator on fractions, and of the token weights.

An estimator with a baseline is a function of the group, K and the definition of the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

from maxk_lab.estimators.reference import baselines
from maxk_lab.estimators.reference.exact import Group, deviation, mean, others

Weights = Sequence[Fraction]
Definition = Callable[[Group, int], Weights]


def of_baseline(group: Group, k: int, baseline: Definition) -> Weights:
    """The weights of the baseline at K."""
    return baseline(group, k)


def reinforce(group: Group, k: int, baseline: Definition) -> Weights:
    """The weights of the baseline at K = 1."""
    return baseline(group, 1)


def grpo(group: Group, k: int, *, eps: float = 1e-4) -> list[Fraction]:
    """(R_i - mean) / (deviation + eps) / n; equal rewards give 0."""
    divisor = (deviation(group) + Fraction(eps)) * len(group)
    return [(reward - mean(group)) / divisor if divisor else Fraction(0) for reward in group]


def leader_reward(group: Group, k: int, *, alpha: float = 1.0) -> list[Fraction]:
    """The formula with each tied best sample in turn as the one leader, averaged."""
    n, top, middle = len(group), max(group), mean(group)
    leaders = [i for i in range(n) if group[i] == top]
    totals = [Fraction(0)] * n
    for leader in leaders:
        for i in range(n):
            extra = Fraction(alpha) * (top - middle) if i == leader else Fraction(0)
            totals[i] += (group[i] - middle + extra) / n
    return [total / len(leaders) for total in totals]


def hybrid(group: Group, k: int, *, lambda_: float = 0.5) -> list[Fraction]:
    """lambda * subloo + (1 - lambda) * (R_i - mean)."""
    share, gaps = Fraction(lambda_), baselines.subloo(group, k)
    return [
        share * gap + (1 - share) * (r - mean(group)) for gap, r in zip(gaps, group, strict=True)
    ]


def passk_analytic(group: Group, k: int) -> list[Fraction]:
    """Success of the subsets with i, standardised over all, over n; 0 where all are alike."""
    n = len(group)
    subsets = list(combinations(range(n), k))
    success = [max(group[j] for j in subset) for subset in subsets]
    rho = mean(success)
    if rho * (1 - rho) == 0:
        return [Fraction(0)] * n
    spread = Fraction(math.sqrt(rho * (1 - rho)))
    with_i = [
        mean([won for won, subset in zip(success, subsets, strict=True) if i in subset])
        for i in range(n)
    ]
    return [(share - rho) / spread / n for share in with_i]


def grpo_passk(group: Group, k: int, *, norm: str = "std") -> list[Fraction]:
    """The gap between the best two, to the best, over deviation + 1e-6 unless norm is none."""
    best, second = sorted(group, reverse=True)[:2]
    divisor = deviation(group) + Fraction(1e-6) if norm == "std" else Fraction(1)
    return [(best - second) / divisor if reward == best else Fraction(0) for reward in group]


def maxrl(group: Group, k: int) -> list[Fraction]:
    """(R_i - mean) / mean / n, 0 without a success."""
    middle = mean(group)
    return [(reward - middle) / middle / len(group) if middle else Fraction(0) for reward in group]


def partitioned(group: Group, k: int, *, baseline: str = "none") -> list[Fraction]:
    """The maximum of K neighbours, less (loo) the mean of the others', over the group count."""
    maxima = [max(group[start : start + k]) for start in range(0, len(group), k)]
    weights = []
    for b, own in enumerate(maxima):
        level = mean(others(maxima, b)) if baseline == "loo" else Fraction(0)
        weights += [(own - level) / len(maxima)] * k
    return weights


def tokens(group: Group, proxies: Sequence[Group]) -> list[list[Fraction]]:
    """Sample by sample and token by token; `proxies` are as long as the sample's trajectory."""
    n = len(group)
    weights: list[list[Fraction]] = [[] for _ in range(n)]
    for t in range(max(map(len, proxies))):
        alive = [i for i in range(n) if t < len(proxies[i])]
        so_far = [sum(proxies[i][: t + 1], Fraction(0)) for i in alive]
        baseline = mean([group[i] for i in alive], so_far)
        for i in alive:
            weights[i].append((group[i] - baseline) / n)
    return weights
