"""Medians over instances, between order statistics whose coverage is that of a binomial."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from maxk_lab.statistics.errors import LIKE_THESE
from maxk_lab.statistics.typical import median_interval, typical_ratio, typical_relative_variance
from maxk_lab.statistics.units import Units


def units(m2, mean_square, truth=None):
    m2 = np.asarray(m2, dtype=float)
    square = np.broadcast_to(np.asarray(mean_square, dtype=float), m2.shape)
    truth = square if truth is None else np.broadcast_to(np.asarray(truth, dtype=float), m2.shape)
    return Units(np.zeros(len(m2), dtype=np.int64), m2, square, square, truth)


@pytest.mark.parametrize("count", [6, 7, 12, 16, 33, 100])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_it_covers_the_median_just_as_often_as_it_says_or_more(count, level):
    """It holds the median where at least `rank` values lie on either side of that."""
    found = median_interval(np.random.default_rng(count).permutation(count) + 1.0, level)
    rank = int(found.low)
    assert found.high == count + 1 - rank
    assert found.question == LIKE_THESE

    def covered(rank):
        below = np.arange(rank, count - rank + 1)
        return stats.binom.pmf(below, count, 0.5).sum()

    assert covered(rank) >= level
    assert rank == count // 2 or covered(rank + 1) < level


@pytest.mark.parametrize("level", [0.75, 0.9, 0.95, 0.999])
def test_with_too_few_values_it_says_how_many_would_do(level):
    found = median_interval(np.ones(2), level)
    assert not found.known
    needed = int(found.reason.split(": ")[1].split()[0])
    assert found.reason == f"a median of 2 has no such interval: {needed} are needed"
    assert median_interval(np.arange(float(needed)), level).known
    assert not median_interval(np.arange(needed - 1.0), level).known


def test_a_value_that_is_not_defined_leaves_it_undefined():
    found = median_interval(np.array([np.nan, *range(20)]), 0.95)
    assert (found.known, found.reason) == (False, "not defined on every instance")


def test_the_relative_variance_of_the_typical_instance():
    variances = np.arange(1.0, 12.0)
    measured = units(variances + 2.0, 2.0, truth=4.0)
    assert typical_relative_variance(measured, unbiased=False, level=0.95).value == 3.0
    assert typical_relative_variance(measured, unbiased=True, level=0.95).value == 1.5
    blind = replace(measured, truth=np.full(11, np.nan))
    assert typical_relative_variance(blind, unbiased=True, level=0.95).value == 3.0
    # An instance without a signal is as bad as can be, and moves the others by one place only.
    lost = replace(measured, mean_square=np.array([-1.0, *[2.0] * 10]))
    found = typical_relative_variance(lost, unbiased=False, level=0.95)
    assert (found.value, found.low, found.high) == (3.5, 1.5, 5.5)
    assert median_interval(np.array([np.inf] * 6 + [1.0] * 5), 0.95).high == np.inf


def test_a_ratio_is_paired_by_instance():
    rng = np.random.default_rng(0)
    size, ratio = rng.lognormal(0, 6, 17), rng.permutation(np.linspace(0.2, 1.4, 17))
    found = typical_ratio(units(size * ratio + 1, 1.0), units(size + 1, 1.0), level=0.95)
    assert found.median.value == pytest.approx(0.8, rel=1e-6)
    assert (found.median.low, found.median.high) == pytest.approx((0.5, 1.1), rel=1e-6)
    told = [value for value in ratio if abs(value - 1) > 1e-6]
    assert (found.below, found.instances) == (sum(value < 1 for value in told), 17)
    wanted = stats.binomtest(found.below, len(told)).pvalue
    assert found.p_value == pytest.approx(wanted)


def test_ties_are_told_apart_from_wins():
    one = units([3.0, 4.0, 5.0, 6.0], 1.0)
    same = typical_ratio(one, one, level=0.5)
    assert (same.below, same.ties, same.p_value) == (0, 4, 1.0)
    found = typical_ratio(units([3.0, 4.0 + 1e-12, 4.0, 4.0], 1.0), one, level=0.5)
    assert (found.below, found.ties, found.instances) == (2, 2, 4)
    assert found.p_value == 0.5


def test_a_variance_over_none_is_infinite_and_none_over_none_is_a_tie():
    found = typical_ratio(units([2.0, 1.0, 1.5], 1.0), units([1.0, 1.0, 1.0], 1.0), level=0.5)
    assert (found.median.value, found.below, found.ties) == (np.inf, 0, 1)


def test_other_instances_have_no_pairs():
    with pytest.raises(ValueError, match="different instances"):
        typical_ratio(units([2.0], 1.0), units([2.0, 3.0], 1.0), level=0.95)
