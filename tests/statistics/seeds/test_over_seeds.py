"""Intervals over seeds: Student's t, on a scale that keeps to the range of the values."""

import math

import numpy as np
import pytest
from scipy import special, stats

from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, NOT_POSITIVE, SHARES, Range
from maxk_lab.statistics.seeds.over_seeds import (
    of_instances,
    of_means,
    over_instances,
    over_seeds,
    p_value,
    p_value_over_instances,
)

DRAWN = np.random.default_rng(0)


def test_without_a_range_it_is_student_s():
    values = DRAWN.normal(3, 1, 5).tolist()
    found, wanted = over_seeds(values, 0.9), stats.ttest_1samp(values, 0)
    assert (found.low, found.high) == pytest.approx(tuple(wanted.confidence_interval(0.9)))
    assert p_value(values) == pytest.approx(wanted.pvalue)


def test_between_two_ends_it_is_on_the_logit_scale():
    """The three seeds of a pass@1 whose plain t interval begins below 0."""
    values = [0.38, 0.22, 0.156]
    plain, found = over_seeds(values, 0.95), over_seeds(values, 0.95, SHARES)
    assert plain.low < 0 < found.low
    assert found.value == plain.value
    half = (plain.high - plain.value) / (found.value * (1 - found.value))
    assert special.logit(found.high) == pytest.approx(special.logit(found.value) + half)
    assert special.logit(found.low) == pytest.approx(special.logit(found.value) - half)
    stretched = over_seeds([2 + 3 * value for value in values], 0.95, Range(2, 5))
    assert (stretched.low, stretched.high) == pytest.approx((2 + 3 * found.low, 2 + 3 * found.high))


def test_above_one_end_it_is_that_of_log_normal_values():
    """Olsson's, for values of which none is small beside the others."""
    values = np.array([1.0, 2.0, 1.5, 3.0])
    logs = np.log(values)
    middle, variance = logs.mean() + logs.var(ddof=1) / 2, logs.var(ddof=1)
    half = stats.t.isf(0.025, 3) * math.sqrt(variance / 4 + variance**2 / 6)
    found = over_seeds(values, 0.95, NOT_NEGATIVE)
    assert (found.low, found.high) == pytest.approx(
        (math.exp(middle - half), math.exp(middle + half))
    )
    below = over_seeds(-values, 0.95, NOT_POSITIVE)
    assert (below.low, below.high) == pytest.approx((-found.high, -found.low))


@pytest.mark.parametrize("within", [SHARES, NOT_NEGATIVE, Range(high=1.0)])
@pytest.mark.parametrize("seed", range(10))
def test_no_interval_leaves_the_range(within, seed):
    draws = np.random.default_rng(seed)
    values = draws.beta(*draws.choice([0.1, 1, 30], 2), size=int(draws.integers(2, 6)))
    values[0] = draws.choice([0.0, 1.0])
    found = over_seeds(values, 0.99, within)
    assert within.low <= found.low < found.value < found.high <= within.high


def test_a_range_that_the_values_do_not_keep_is_none():
    values = [-1.0, 0.2, 0.4]
    assert over_seeds(values, 0.95, SHARES) == over_seeds(values, 0.95, ANYWHERE)
    rounded = [0.5, 0.9, 1 + 1e-9]
    assert over_seeds(rounded, 0.95, SHARES).high <= 1


@pytest.mark.parametrize("shift", [0.01, 0.1, 0.4])
def test_an_interval_at_the_p_value_ends_at_no_difference(shift):
    values = (DRAWN.normal(0, 0.1, 5) + shift).tolist()
    for within in (ANYWHERE, SHARES.of_differences):
        found = over_seeds(values, 1 - p_value(values, within), within)
        assert min(abs(found.low), abs(found.high)) < 1e-9


def test_where_nothing_differs_there_is_a_value_and_a_reason():
    found = over_seeds([0.3, 0.3, 0.3], 0.95, SHARES)
    assert (found.value, found.known) == (pytest.approx(0.3), False)
    assert found.reason.startswith("the same in every seed")
    assert math.isnan(p_value([0.3, 0.3, 0.3]))
    assert over_seeds([0.3], 0.95).reason == "one seed: no interval over seeds"
    assert over_seeds([0.3, math.nan], 0.95).reason == "not defined in every seed"
    assert math.isnan(p_value([0.3, math.nan]))


def test_one_seed_is_over_its_instances():
    values = DRAWN.exponential(size=40).tolist()
    assert of_instances([values], 0.95) == over_instances(values, 0.95)
    assert of_instances([values, list(values)], 0.95).reason.startswith("the same")
    shifted = [value - 0.8 for value in values]
    found = over_instances(shifted, 1 - p_value_over_instances(shifted))
    assert min(abs(found.low), abs(found.high)) < 1e-9
    assert math.isnan(p_value_over_instances([0.0] * 9 + [1.0]))


def test_the_interval_of_a_record_keeps_to_the_range_too():
    assert of_means([(0.9, 0.7, 1.1)], 0.95, SHARES).high == 1
    assert of_means([(0.9, None, None)], 0.95, SHARES).reason == "no interval over instances"
    assert of_means([(0.9, None, None), (0.7, 0.6, 0.8)], 0.95) == over_seeds([0.9, 0.7], 0.95)
