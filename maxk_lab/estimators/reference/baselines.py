"""The definition of every baseline, on a group of exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

from maxk_lab.estimators.reference.exact import Group, left_out_values, mean, minus, others, score


def group_mean(group: Group, k: int) -> list[Fraction]:
    """s_i minus the mean of s."""
    s = score(group, k)
    return minus(s, [mean(s)] * len(s))


def centred(group: Group, k: int) -> list[Fraction]:
    """s_i minus K/n times the value of the others."""
    return minus(score(group, k), [Fraction(k, len(group)) * b for b in left_out_values(group, k)])


def sample_loo(group: Group, k: int) -> list[Fraction]:
    """s_i minus the value of the others."""
    return minus(score(group, k), left_out_values(group, k))


def pkpo_sloo(group: Group, k: int) -> list[Fraction]:
    """s_i minus the mean of the others' score weights among themselves."""
    return minus(score(group, k), [mean(score(others(group, i), k)) for i in range(len(group))])


def subloo(group: Group, k: int) -> list[Fraction]:
    """The sum, over the K-subsets with i, of the maximum minus the maximum without i, over C(n, K)."""
    totals = [Fraction(0)] * len(group)
    for subset in combinations(range(len(group)), k):
        for i in subset:
            totals[i] += max(group[j] for j in subset) - max(group[j] for j in subset if j != i)
    return [total / math.comb(len(group), k) for total in totals]


def affine(group: Group, k: int, *, alpha: float = 0.5) -> list[Fraction]:
    """s_i - (K/n) [value of the others at K - alpha * (that - value of the others at K-1)]."""
    at_k = left_out_values(group, k)
    step = minus(at_k, left_out_values(group, k - 1)) if alpha != 0 else [Fraction(0)] * len(group)
    level = minus(at_k, [Fraction(alpha) * d for d in step])
    return minus(score(group, k), [Fraction(k, len(group)) * b for b in level])


def weighted_mean(group: Group, k: int, *, g: Group | None = None) -> list[Fraction]:
    """The reward minus the mean of all rewards by g, over n; K = 1."""
    return [(reward - mean(group, g)) / len(group) for reward in group]


def weighted_loo(group: Group, k: int, *, g: Group | None = None) -> list[Fraction]:
    """The reward minus the mean of the other rewards by their g, over n; K = 1."""
    n = len(group)
    return [(group[i] - mean(others(group, i), None if g is None else others(g, i))) / n for i in range(n)]


def optimal(group: Group, k: int, *, kind: str = "grad_norm", g: Group | None = None) -> list[Fraction]:
    """s_i minus (n-1)/n times the mean, by g, of the others' score weights among themselves."""
    n = len(group)
    baseline = [
        Fraction(n - 1, n) * mean(score(others(group, i), k), None if g is None else others(g, i))
        for i in range(n)
    ]
    return minus(score(group, k), baseline)
