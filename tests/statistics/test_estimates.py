"""Means and their quotients: cumulants written out, tests and intervals that are each other's."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from maxk_lab.ranges import NOT_NEGATIVE, SHARES
from maxk_lab.statistics.estimates import (
    MORE_SKEWNESS,
    NO_ERROR,
    Sample,
    Spread,
    Tangent,
    block_estimate,
    effective_number,
    instance_estimate,
    ratio,
    remove_skewness,
    stratified_mean,
)
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.statistics.seeds import skewed_mean, spread_of_mean

# Two seeds of different numbers of instances, and a combination of three numbers of each.
STRATUM = np.repeat([0, 1], [5, 7])
WEIGHTS = np.array([1.0, -0.5, 2.0])
VALUES = np.random.default_rng(0).gamma(2.0, 1.0, (3, 12))
FIRST, SECOND = np.eye(2)
ONE = 3.0 * np.eye(50)[7]
each_question = pytest.mark.parametrize("question", [FIXED, NEW])


def blocks(shape=(3, 12, 6), size=1.0):
    """The distances of the blocks of each instance to the instance; they sum to 0."""
    distances = np.random.default_rng(1).gamma(1.0, size, shape)
    return distances - distances.mean(2, keepdims=True)


def estimate(question, values=VALUES, by_block=None, stratum=STRATUM):
    sample = Sample(values, blocks() if by_block is None else by_block, stratum)
    return sample.fixed if question == FIXED else sample.new


@each_question
def test_a_mean_has_the_cumulants_of_what_is_random(question):
    """New instances have the cumulants of their sample, fixed ones those of their blocks."""
    distances, variance, third, squares, fourths = blocks(), 0.0, 0.0, 0.0, 0.0
    for s in (0, 1):
        (members,) = np.nonzero(s == STRATUM)
        count = len(members)
        values = WEIGHTS @ VALUES[:, members]
        if question == NEW:
            variance += values.var(ddof=1) / count / 4
            third += MORE_SKEWNESS * stats.kstat(values, 3) / count**2 / 8
            fourths += (((values - values.mean()) ** 2 / (4 * count * (count - 1))) ** 2).sum()
            continue
        for i in members:
            by_block, weight = WEIGHTS @ distances[:, i], 1 / (2 * count)
            variance += weight**2 * by_block.var(ddof=1) / 6
            third += weight**3 * stats.kstat(by_block, 3) / 36
            squares += (weight**2 * by_block.var(ddof=1) / 6) ** 2 / 5
    spread = estimate(question).spread(WEIGHTS)
    # Welch and Satterthwaite, or fewer where few instances carry the variance.
    freedom = min(10, 2 * variance**2 / fourths) if fourths else variance**2 / squares
    mean = WEIGHTS @ np.mean([VALUES[:, s == STRATUM].mean(1) for s in (0, 1)], 0)
    expected = (mean, variance**0.5, third / variance**1.5, freedom)
    assert (spread.mean, spread.error, spread.skewness, spread.freedom) == pytest.approx(expected)


def test_strata_in_any_order_and_too_few_parts_for_an_error():
    stratum = np.array([1, 0, 1, 1, 2, 0])
    means = [VALUES[:, :6][:, stratum == s].mean(1) for s in range(3)]
    assert stratified_mean(VALUES[:, :6], stratum) == pytest.approx(np.mean(means, 0))
    two = block_estimate(VALUES, blocks((3, 12, 2)), STRATUM).spread(WEIGHTS)
    assert (two.error > 0, two.skewness) == (True, 0.0)
    alone = instance_estimate(VALUES, np.array([0] * 11 + [1]))
    for means in (block_estimate(VALUES, np.zeros((3, 12, 1)), STRATUM), alone):
        assert np.isnan(means.spread(WEIGHTS).error)


def test_the_effective_number_of_instances():
    """Without the noise of the values, and at most as many as there are values."""
    for values, noise, number in (
        ([5.0, 0.0, 0.0], 0.0, 1),
        ([3.0, 1.0], 0.0, 16 / 10),
        ([3.0, 1.0], 1.0, 16 / 8),
        ([3.0, 1.0], 4.0, 2),
        ([1.0, -2.0], 0.0, math.nan),
        ([1e-170, 2e-170], 0.0, math.nan),
    ):
        result = effective_number(np.array(values), noise)
        assert result == pytest.approx(number, nan_ok=True), values


@pytest.mark.parametrize("skewness", [-1.5, -0.3, 0.0, 1e-12, 0.2, 3.0])
@pytest.mark.parametrize(("freedom", "level"), [(3, 0.95), (40.5, 0.8), (200, 0.999)])
def test_the_ends_are_the_means_that_are_rejected_at_just_this_level(skewness, freedom, level):
    low, high = Spread(2.0, 0.5, skewness, freedom).ends(level)
    assert low < 2.0 < high
    for end, side in ((low, 1), (high, -1)):
        away = Spread(2.0 - end, 0.5, skewness, freedom)
        assert away.p_apart() == pytest.approx(1 - level, rel=1e-9)
        assert math.copysign(1, away.t()) == side
        for moved in (0.01, -0.01):
            near = Spread(2.0 - end - moved * side, 0.5, skewness, freedom)
            assert (near.p_apart() > 1 - level) == (moved > 0)
    reach = max(Spread(0.0, 1.0, skewness, freedom).reach((1 - level) / 2))
    p_values = [Spread(side * reach, 1.0, skewness, freedom).p_apart() for side in (1, -1)]
    assert max(p_values) == pytest.approx(1 - level, rel=1e-9)


def test_without_skewness_they_are_students():
    values = np.random.default_rng(0).normal(0.3, 1.0, 12)
    spread, expected = (
        Spread(values.mean(), stats.sem(values), 0.0, 11),
        stats.ttest_1samp(values, 0),
    )
    above = stats.ttest_1samp(values, 0.0, alternative="greater").pvalue
    assert (spread.p_apart(), spread.p_above()) == pytest.approx((expected.pvalue, above))
    assert spread.ends(0.9) == pytest.approx(tuple(expected.confidence_interval(0.9)))
    for error, end in ((0.0, 2.0), (math.nan, math.nan)):
        constant = Spread(2.0, error, 0.0, 5)
        assert constant.ends(0.95) == pytest.approx((end, end), nan_ok=True)
        assert (constant.p_apart(), constant.p_above()) == (1.0, 1.0)


def test_a_transformed_statistic_is_never_farther_from_zero_nor_on_its_other_side():
    for t in np.linspace(-8, 8, 33).tolist():
        for skewness in np.linspace(-4, 4, 17).tolist():
            transformed = remove_skewness(t, skewness)
            assert abs(transformed) <= abs(t)
            assert transformed * t >= 0
    # Hall's cubic, by hand: 2 - 0.5 · 4/3 + 0.25 · 8/27 - 0.5/6 = 1.32407.
    assert remove_skewness(2.0, -0.5) == pytest.approx(1.3240740740740742)


def correlated(question, seed=0, noise=0.4):
    """Two correlated, skewed numbers of twenty instances, as both sides of a quotient."""
    rng = np.random.default_rng(seed)
    values = rng.gamma(1 / noise, noise, 20) * rng.gamma(2 / noise, noise, (2, 20))
    by_block = blocks((2, 20, 8), 3 * noise)
    means = estimate(question, values, by_block, np.repeat([0, 1], [8, 12]))
    return means, Tangent(means.means[0], FIRST), Tangent(means.means[1], SECOND)


@each_question
@pytest.mark.parametrize(("seed", "level"), [(0, 0.5), (1, 0.95), (2, 0.998)])
def test_the_interval_of_a_quotient_is_what_a_test_of_each_value_does_not_reject(
    question, seed, level
):
    means, top, bottom = correlated(question, seed, noise=0.2)
    quotient = ratio(means, top, bottom, level)
    freedom = means.spread(FIRST - quotient.value * SECOND).freedom
    reach = stats.t.isf((1 - level) / 2, freedom)
    width = quotient.width
    grid = np.arange(quotient.low - width, quotient.high + width, width / 1000)
    inside = [abs(means.spread(FIRST - value * SECOND).t()) <= reach for value in grid]
    accepted = grid[inside]
    ends = pytest.approx((quotient.low, quotient.high), abs=width / 900)
    assert (accepted[0], accepted[-1]) == ends
    assert np.diff(accepted).max() <= width / 900
    assert quotient.low < quotient.value < quotient.high
    assert quotient.question == question


def test_a_quotient_without_an_interval_has_a_reason():
    """A quotient that is 2 on every instance is a point."""
    means, top, bottom = correlated(NEW)
    parts = np.stack([2 * means.parts[1], means.parts[1]])
    double = replace(means, means=np.array([2.0, 1.0]) * bottom.value, parts=parts)
    point = ratio(double, Tangent(2 * bottom.value, FIRST), bottom, 0.95)
    assert (point.value, point.low, point.high, point.reason) == (2.0, 2.0, 2.0, "")
    nothing = block_estimate(np.ones((2, 20)), np.full((2, 20, 2), np.nan), np.zeros(20, np.int64))
    quotient = ratio(nothing, Tangent(1.0, FIRST), Tangent(1.0, SECOND), 0.95)
    assert (quotient.value, quotient.reason, quotient.defined) == (1.0, NO_ERROR, False)
    for divisor in (0.0, -1.0, math.nan):
        quotient = ratio(means, top, Tangent(divisor, SECOND), 0.95)
        assert (math.isnan(quotient.value), "not positive" in quotient.reason) == (True, True)


def test_an_end_is_infinite_where_the_denominator_may_be_zero():
    values = np.random.default_rng(1).normal(size=(2, 20))
    values += np.array([10.0, 0.3 - values[1].mean()])[:, None]
    means = instance_estimate(values, np.zeros(20, np.int64))
    tangents = Tangent(means.means[0], FIRST), Tangent(means.means[1], SECOND)
    quotient = ratio(means, *tangents, 0.95)
    assert 0 < quotient.low < quotient.value < quotient.high == math.inf
    assert ratio(means, *tangents, 0.01).high < math.inf


def test_a_mean_over_strata_has_welch_s_freedom():
    skewed = np.random.default_rng(0).lognormal(0, 1, 40)
    spread, _ = spread_of_mean(skewed, np.repeat([0, 1], [30, 10]))
    parts = skewed[:30], skewed[30:]
    assert spread.mean == pytest.approx(np.mean([part.mean() for part in parts]))
    assert spread.error == pytest.approx(math.hypot(*map(stats.sem, parts)) / 2)
    assert spread.freedom == pytest.approx(stats.ttest_ind(parts[0], -parts[1], equal_var=False).df)
    for values, number in ((ONE, 1), (np.repeat([0.0, 1.0], 25), 50), (np.full(50, 0.1), 0)):
        carried = spread_of_mean(values, np.zeros(50, np.int64))[1]
        assert carried == pytest.approx(number, abs=0.05)


def test_a_mean_that_one_value_carries_has_a_reason_and_no_interval():
    for values, value, reason in (
        (ONE, 0.06, "an effective 1.0 of 50 instances carry its spread: no interval"),
        (np.full(50, 0.1), 0.1, "the same on all 50 instances: no interval"),
        ([1.0, math.nan], math.nan, "not defined on all instances"),
        ([1.0], 1.0, "fewer than two instances: no interval"),
        ([], math.nan, "fewer than two instances: no interval"),
    ):
        mean = skewed_mean(values, 0.95, within=NOT_NEGATIVE, of="instances")
        assert (mean.defined, mean.reason) == (False, reason)
        assert mean.value == pytest.approx(value, nan_ok=True)


def test_no_interval_of_a_mean_leaves_the_range():
    draws = np.random.default_rng(0)
    for chance in (0.05, 0.5, 0.95) * 5:
        rate = skewed_mean(draws.random(40) < chance, 0.95, within=SHARES)
        gap = skewed_mean(draws.exponential(size=8) ** 3, 0.999, within=NOT_NEGATIVE)
        for mean, most in ((rate, 1.0), (gap, math.inf)):
            assert mean.defined == (mean.reason == "")
            assert not mean.defined or 0 <= mean.low <= mean.value <= mean.high <= most
