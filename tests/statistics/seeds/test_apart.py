"""Outlier seeds, by Grubbs' published test; the sign test."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from maxk_lab.statistics.seeds.apart import outlying, sign_test


@pytest.mark.parametrize(
    ("seeds", "critical"), [(3, 1.1543), (4, 1.4812), (5, 1.7150), (8, 2.1266)]
)
def test_the_critical_values_are_those_of_grubbs(seeds, critical):
    """Two-sided at 5 %, from the tables of Grubbs' test."""
    base = np.random.default_rng(seeds).normal(size=seeds - 1)

    def statistic(last):
        values = np.append(base, last)
        return (last - values.mean()) / values.std(ddof=1)

    near, far = (
        optimize.brentq(lambda last, at=at: statistic(last) - at, base.max(), 1e3)
        for at in (critical - 1e-4, critical + 1e-4)
    )
    assert outlying(np.append(base, near)) is None
    assert outlying(np.append(base, far)) == seeds - 1


def test_one_seed_apart_is_named():
    assert outlying([-4.1, -4.12, -4.11, -7.9, -4.1]) == 3
    assert outlying([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert outlying([1.0, 9.0]) is None
    assert outlying([1.0, 1.0, 1.0]) is None
    assert outlying([1.0, math.nan, 1.0, 1.0]) is None


def test_what_instances_explain_is_not_apart():
    shares = [1.0, 1.0, 1.0, 1.0, 0.992]
    assert outlying(shares) == 4
    assert outlying(shares, noise=0.004) is None
    assert outlying([1.0, 1.0, 1.0, 1.0, 0.5], noise=0.004) == 4


@pytest.mark.parametrize("seeds", range(1, 12))
def test_the_sign_test_is_binomial(seeds):
    assert sign_test(seeds, 0) == pytest.approx(stats.binomtest(seeds, seeds).pvalue)
    assert sign_test(0, 0) == 1
