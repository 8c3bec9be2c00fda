"""The definition of every baseline, on a group of exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.reference.exact import (
    Alpha,
    Group,
    left_out_values,
    mean,
    minus,
    others,
    score,
    statistic,
)


def none(group: Group, k: int, *, objective: Objective | None = None) -> list[Fraction]:
    """s_i itself."""
    return score(group, k, _alpha(objective))


def group_mean(group: Group, k: int, *, objective: Objective | None = None) -> list[Fraction]:
    """s_i minus the mean of s."""
    s = score(group, k, _alpha(objective))
    return minus(s, [mean(s)] * len(s))


def centred(group: Group, k: int, *, objective: Objective | None = None) -> list[Fraction]:
    """s_i minus K/n times the value of the others."""
    return _minus_share(group, k, left_out_values(group, k, _alpha(objective)), objective)


def sample_loo(group: Group, k: int, *, objective: Objective | None = None) -> list[Fraction]:
    """s_i minus the value of the others."""
    alpha = _alpha(objective)
    return minus(score(group, k, alpha), left_out_values(group, k, alpha))


def pkpo_sloo(group: Group, k: int, *, objective: Objective | None = None) -> list[Fraction]:
    """s_i minus the mean of the others' score weights among themselves."""
    alpha = _alpha(objective)
    left_out = [mean(score(others(group, i), k, alpha)) for i in range(len(group))]
    return minus(score(group, k, alpha), left_out)


def subloo(group: Group, k: int, *, objective: Objective | None = None) -> list[Fraction]:
    """The sum over the K-subsets with i of their statistic minus the one without i, over C(n, K).

    Without i it is the reduced one of K-1.
    """
    alpha, reduced = _alpha(objective), None if objective is None else objective.exact_reduced
    totals = [Fraction(0)] * len(group)
    for subset in combinations(range(len(group)), k):
        for i in subset:
            totals[i] += statistic([group[j] for j in subset], alpha)
            totals[i] -= statistic([group[j] for j in subset if j != i], reduced)
    return [total / math.comb(len(group), k) for total in totals]


def affine(
    group: Group, k: int, *, alpha: float | Fraction = 0.5, objective: Objective | None = None
) -> list[Fraction]:
    """s_i - (K/n) [value of the others at K - alpha * (that - their reduced value at K-1)]."""
    if alpha == 0:
        return centred(group, k, objective=objective)
    at_k = left_out_values(group, k, _alpha(objective))
    reduced = None if objective is None else objective.exact_reduced
    step = minus(at_k, left_out_values(group, k - 1, reduced))
    return _minus_share(
        group, k, [v - Fraction(alpha) * d for v, d in zip(at_k, step, strict=True)], objective
    )


def ladder(group: Group, k: int, *, alpha: Sequence[float | Fraction]) -> list[Fraction]:
    """s_i minus K/n times the sum of alpha_k times the others' value at k.

    The last alpha is taken as what is left of 1.
    """
    rungs = [Fraction(a) for a in alpha[:-1]]
    rungs.append(1 - sum(rungs, Fraction(0)))
    values = [left_out_values(group, rung) for rung in range(1, k + 1)]
    level = [
        sum((a * v for a, v in zip(rungs, own, strict=True)), Fraction(0))
        for own in zip(*values, strict=True)
    ]
    return _minus_share(group, k, level)


def constant(group: Group, k: int, *, c: float | Fraction) -> list[Fraction]:
    """s_i minus K/n times c."""
    return _minus_share(group, k, [Fraction(c)] * len(group))


def fitted_affine(group: Group, k: int, *, coefficients: Group) -> list[Fraction]:
    """`affine` with the one coefficient as alpha."""
    (alpha,) = coefficients
    return affine(group, k, alpha=alpha)


def fitted_ladder(group: Group, k: int, *, coefficients: Group) -> list[Fraction]:
    """`ladder` with the coefficients as alpha_1 to alpha_(K-1)."""
    return ladder(group, k, alpha=[*coefficients, Fraction(0)])


def fitted_constant(group: Group, k: int, *, coefficients: Group) -> list[Fraction]:
    """`constant` with the one coefficient as c."""
    (c,) = coefficients
    return constant(group, k, c=c)


def given(group: Group, k: int, *, coefficients: Group) -> list[Fraction]:
    """s_i minus b_i, the coefficients."""
    return minus(score(group, k), coefficients)


def weighted_mean(group: Group, k: int, *, g: Group | None = None) -> list[Fraction]:
    """The reward minus the mean of all rewards by g, over n; K = 1."""
    return [(reward - mean(group, g)) / len(group) for reward in group]


def weighted_loo(group: Group, k: int, *, g: Group | None = None) -> list[Fraction]:
    """The reward minus the mean of the other rewards by their g, over n; K = 1."""
    n = len(group)
    return [
        (group[i] - mean(others(group, i), None if g is None else others(g, i))) / n
        for i in range(n)
    ]


def optimal(
    group: Group, k: int, *, kind: str = "grad_norm", g: Group | None = None
) -> list[Fraction]:
    """s_i minus (n-1)/n times the mean, by g, of the others' score weights among themselves."""
    n = len(group)
    baseline = [
        Fraction(n - 1, n) * mean(score(others(group, i), k), None if g is None else others(g, i))
        for i in range(n)
    ]
    return minus(score(group, k), baseline)


def _alpha(objective: Objective | None) -> Alpha:
    return None if objective is None else objective.exact_weights


def _minus_share(
    group: Group, k: int, level: Group, objective: Objective | None = None
) -> list[Fraction]:
    """s_i minus K/n times the level of sample i."""
    share = Fraction(k, len(group))
    return minus(score(group, k, _alpha(objective)), [share * b for b in level])
