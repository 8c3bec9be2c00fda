"""The rules of any L-statistic: against those of the maximum, and against sums of binomials."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import l_statistic, maximum
from maxk_lab.estimators.ranks.combinatorics import hypergeometric_means

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["score", "left_out_value", "group_mean", "subloo"])
@pytest.mark.parametrize(("n", "k"), [(5, 2), (40, 17), (300, 299), (4096, 64)])
def test_the_general_rules_give_those_of_the_maximum(name: str, n: int, k: int) -> None:
    """Two ways to the same coefficients: hypergeometric means and the maximum's recurrence."""
    general = getattr(l_statistic, name)(n, Objective("max", k), CPU)
    special = getattr(maximum, name)(n, k, CPU)
    for found, known in ((general.steps, special.steps), (general.shift, special.shift)):
        torch.testing.assert_close(found, known, rtol=1e-12, atol=1e-300)
    assert general.top == special.top
    assert general.base % n == special.base % n


@pytest.mark.parametrize(
    ("population", "draws"), [(0, 0), (1, 1), (5, 0), (9, 4), (30, 29), (30, 30), (60, 23)]
)
def test_hypergeometric_means_against_exact_fractions(population: int, draws: int) -> None:
    table = [math.cos(x) for x in range(draws + 1)]
    marked = range(population + 1)
    found = hypergeometric_means(torch.tensor(table, dtype=torch.float64), population, marked)
    for good, mean in zip(marked, found.tolist(), strict=True):
        exact = sum(
            Fraction(table[x] * 1.0) * math.comb(good, x) * math.comb(population - good, draws - x)
            for x in range(draws + 1)
        ) / math.comb(population, draws)
        assert mean == pytest.approx(float(exact), rel=1e-13, abs=1e-15)


def test_steps_are_the_published_sum_of_binomials() -> None:
    n, own = 9, Objective("l_statistic[0.3 -1.2 0.5 2.0]", 4)
    steps = l_statistic.score(n, own, CPU).steps
    for j in range(1, n):
        exact = sum(
            alpha * math.comb(j - 1, m - 1) * math.comb(n - j - 1, own.k - m)
            for m, alpha in enumerate(own.exact_weights, 1)
        ) / math.comb(n, own.k)
        assert float(steps[j - 1]) == pytest.approx(float(exact), rel=1e-14)
