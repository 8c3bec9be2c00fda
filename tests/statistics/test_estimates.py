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
    reach_of_t,
    remove_skewness,
    stratified_mean,
    stratum_weights,
)
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.statistics.seeds import skewed_mean, spread_of_mean

# Two seeds of different numbers of instances, and a combination of three numbers of each.
STRATUM = np.repeat([0, 1], [5, 7])
OF = np.array([1.0, -0.5, 2.0])
VALUES = np.random.default_rng(0).gamma(2.0, 1.0, (3, 12))
SKEWED = np.random.default_rng(0).lognormal(0, 1, 40)
SKEWNESSES = (-1.5, -0.3, 0.0, 1e-12, 0.2, 1.0, 3.0)
FIRST, SECOND = np.eye(2)
ONE = np.zeros(50)
ONE[7] = 3.0
each_question = pytest.mark.parametrize("question", [FIXED, NEW])


def by_block(shape=(3, 12, 6), size=1.0):
    """How far the blocks of each instance lie from it: they sum to 0."""
    far = np.random.default_rng(1).gamma(1.0, size, shape)
    return far - far.mean(2, keepdims=True)


def estimate_of(values, far, question, stratum=STRATUM):
    sample = Sample(values, far, stratum)
    return sample.fixed if question == FIXED else sample.new


def test_strata_weigh_the_same_whatever_their_order_and_size():
    stratum = np.array([1, 0, 1, 1, 2, 0])
    of = [VALUES[:, :6][:, stratum == s].mean(1) for s in range(3)]
    assert stratified_mean(VALUES[:, :6], stratum) == pytest.approx(np.mean(of, 0))
    assert stratum_weights(stratum) == pytest.approx(1 / 3 / np.array([3, 2, 3, 3, 1, 2]))


@each_question
def test_a_mean_has_the_cumulants_of_what_is_random(question):
    """Of instances drawn anew those of their sample, of these instances those of their blocks."""
    far, variance, third, squares, fourths = by_block(), 0.0, 0.0, 0.0, 0.0
    for s in (0, 1):
        (members,) = np.nonzero(s == STRATUM)
        count = len(members)
        of = OF @ VALUES[:, members]
        if question == NEW:
            variance += of.var(ddof=1) / count / 4
            third += MORE_SKEWNESS * stats.kstat(of, 3) / count**2 / 8
            fourths += (((of - of.mean()) ** 2 / (4 * count * (count - 1))) ** 2).sum()
            continue
        for i in members:
            blocks, weight = OF @ far[:, i], 1 / (2 * count)
            variance += weight**2 * blocks.var(ddof=1) / 6
            third += weight**3 * stats.kstat(blocks, 3) / 36
            squares += (weight**2 * blocks.var(ddof=1) / 6) ** 2 / 5
    spread = estimate_of(VALUES, far, question).spread(OF)
    # Welch and Satterthwaite, or where few instances carry it fewer than there are.
    few = min(10, 2 * variance**2 / fourths) if fourths else variance**2 / squares
    wanted = (OF @ stratified_mean(VALUES, STRATUM), variance**0.5, third / variance**1.5, few)
    assert (spread.mean, spread.error, spread.skewness, spread.freedom) == pytest.approx(wanted)


@each_question
def test_the_cumulants_of_a_difference_are_polynomials_in_the_factor(question):
    estimate, b = estimate_of(VALUES, by_block(), question), np.array([0.3, 1.0, -0.2])
    seconds, thirds = estimate.powers(OF, b)
    for factor in (-2.0, 0.0, 0.7, 5.0):
        direct = estimate.spread(OF - factor * b)
        assert np.polyval(seconds, factor) == pytest.approx(direct.error**2)
        assert np.polyval(thirds, factor) == pytest.approx(direct.skewness * direct.error**3)


def test_where_too_little_varies_there_is_no_error():
    two = by_block()[:, :, :2]
    two = block_estimate(VALUES, two - two.mean(2, keepdims=True), STRATUM).spread(OF)
    assert (two.error > 0, two.skewness) == (True, 0.0)
    assert np.isnan(block_estimate(VALUES, np.zeros((3, 12, 1)), STRATUM).spread(OF).error)
    alone = np.array([0] * 11 + [1])
    assert np.isnan(instance_estimate(VALUES, alone).spread(OF).error)


@pytest.mark.parametrize(
    ("values", "noise", "number"),
    [
        ([1.0] * 7, 0.0, 7),
        ([5.0, 0.0, 0.0], 0.0, 1),
        ([3.0, 1.0], 0.0, 16 / 10),
        # Without its noise, and never more than there are.
        ([3.0, 1.0], 1.0, 16 / 8),
        ([3.0, 1.0], 4.0, 2),
        ([1.0, -2.0], 0.0, math.nan),
        ([1e-170, 2e-170], 0.0, math.nan),
    ],
)
def test_the_effective_number_of_instances(values, noise, number):
    assert effective_number(np.array(values), noise) == pytest.approx(number, nan_ok=True)


@pytest.mark.parametrize("skewness", SKEWNESSES)
@pytest.mark.parametrize(("freedom", "level"), [(3, 0.95), (15, 0.95), (40.5, 0.8), (200, 0.999)])
def test_the_ends_are_the_means_that_are_rejected_at_just_this_level(skewness, freedom, level):
    low, high = Spread(2.0, 0.5, skewness, freedom).ends(level)
    assert low < 2.0 < high
    for end, side in ((low, 1), (high, -1)):
        away = Spread(2.0 - end, 0.5, skewness, freedom)
        assert away.p_apart() == pytest.approx(1 - level, rel=1e-9)
        assert math.copysign(1, away.t()) == side
        for moved, inside in ((0.01 * side, True), (-0.01 * side, False)):
            near = Spread(2.0 - end - moved, 0.5, skewness, freedom)
            assert (near.p_apart() > 1 - level) == inside
    far = max(Spread(0.0, 1.0, skewness, freedom).reach((1 - level) / 2))
    p_values = [Spread(side * far, 1.0, skewness, freedom).p_apart() for side in (1, -1)]
    assert max(p_values) == pytest.approx(1 - level, rel=1e-9)


def test_without_skewness_they_are_students():
    values = np.random.default_rng(0).normal(0.3, 1.0, 12)
    found, wanted = Spread(values.mean(), stats.sem(values), 0.0, 11), stats.ttest_1samp(values, 0)
    above = stats.ttest_1samp(values, 0.0, alternative="greater").pvalue
    assert (found.p_apart(), found.p_above()) == pytest.approx((wanted.pvalue, above))
    assert found.ends(0.9) == pytest.approx(tuple(wanted.confidence_interval(0.9)))
    assert reach_of_t(40.5, 0.025) == stats.t.isf(0.025, 40.5)
    # What does not vary is known, or not at all.
    for error, ends in ((0.0, (2.0, 2.0)), (math.nan, (math.nan, math.nan))):
        found = Spread(2.0, error, 0.0, 5)
        assert found.ends(0.95) == pytest.approx(ends, nan_ok=True)
        assert (found.p_apart(), found.p_above()) == (1.0, 1.0)


def test_a_transformed_statistic_is_never_farther_from_zero_nor_on_its_other_side():
    for t in np.linspace(-8, 8, 65).tolist():
        for skewness in np.linspace(-4, 4, 33).tolist():
            found = remove_skewness(t, skewness)
            assert abs(found) <= abs(t)
            assert found * t >= 0
    # Hall's cubic, by hand: 2 - 0.5 · 4/3 + 0.25 · 8/27 - 0.5/6 = 1.32407.
    assert remove_skewness(2.0, -0.5) == pytest.approx(1.3240740740740742)


def drawn(seed, question, noise=0.4):
    """Two correlated, skewed numbers of twenty instances, and the errors of their means."""
    rng = np.random.default_rng(seed)
    values = rng.gamma(1 / noise, noise, 20) * rng.gamma(2 / noise, noise, (2, 20))
    far = by_block((2, 20, 8), 3 * noise)
    estimate = estimate_of(values, far, question, np.repeat([0, 1], [8, 12]))
    return estimate, Tangent(estimate.means[0], FIRST), Tangent(estimate.means[1], SECOND)


@each_question
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", [0.5, 0.95, 0.998])
def test_the_interval_of_a_quotient_is_what_a_test_of_each_value_does_not_reject(
    question, seed, level
):
    estimate, top, bottom = drawn(seed, question, noise=0.2)
    found = ratio(estimate, top, bottom, level)
    freedom = estimate.spread(FIRST - found.value * SECOND).freedom
    reach = stats.t.isf((1 - level) / 2, freedom)
    grid = np.arange(found.low - found.width, found.high + found.width, found.width / 1000)
    inside = [abs(estimate.spread(FIRST - value * SECOND).t()) <= reach for value in grid]
    kept = grid[inside]
    near = found.width / 900
    assert (kept[0], kept[-1]) == pytest.approx((found.low, found.high), abs=near)
    assert np.diff(kept).max() <= near
    assert found.low < found.value < found.high
    assert found.question == question


def test_a_quotient_that_does_not_vary_is_a_point():
    """The first number is twice the second on every instance, whatever these are."""
    estimate, _, bottom = drawn(0, NEW)
    parts = np.stack([2 * estimate.parts[1], estimate.parts[1]])
    double = replace(estimate, means=np.array([2.0, 1.0]) * bottom.value, parts=parts)
    found = ratio(double, Tangent(2 * bottom.value, FIRST), bottom, 0.95)
    assert (found.value, found.low, found.high, found.reason) == (2.0, 2.0, 2.0, "")


def test_without_errors_or_a_positive_denominator_there_is_a_reason():
    estimate = block_estimate(np.ones((2, 20)), np.full((2, 20, 2), np.nan), np.zeros(20, np.int64))
    found = ratio(estimate, Tangent(1.0, FIRST), Tangent(1.0, SECOND), 0.95)
    assert (found.value, found.reason, found.defined) == (1.0, NO_ERROR, False)
    estimate, top, _ = drawn(0, NEW)
    for bottom in (0.0, -1.0, math.nan):
        found = ratio(estimate, top, Tangent(bottom, SECOND), 0.95)
        assert math.isnan(found.value)
        assert "not positive" in found.reason


def test_an_end_is_infinite_where_the_denominator_cannot_be_told_from_zero():
    rng = np.random.default_rng(1)
    values = np.stack([10 + rng.normal(size=20), rng.normal(size=20)])
    values[1] += 0.3 - values[1].mean()
    estimate = instance_estimate(values, np.zeros(20, np.int64))
    tangents = Tangent(estimate.means[0], FIRST), Tangent(estimate.means[1], SECOND)
    found = ratio(estimate, *tangents, 0.95)
    assert 0 < found.low < found.value < found.high == math.inf
    assert ratio(estimate, *tangents, 0.01).high < math.inf


def test_a_mean_over_strata_has_welch_s_freedom():
    spread, _ = spread_of_mean(SKEWED, np.repeat([0, 1], [30, 10]))
    parts = SKEWED[:30], SKEWED[30:]
    errors = [stats.sem(part) for part in parts]
    assert spread.mean == pytest.approx(np.mean([part.mean() for part in parts]))
    assert spread.error == pytest.approx(math.hypot(*errors) / 2)
    assert spread.freedom == pytest.approx(stats.ttest_ind(parts[0], -parts[1], equal_var=False).df)
    for values, number in ((ONE, 1), (np.repeat([0.0, 1.0], 25), 50), (np.full(50, 0.1), 0)):
        carried = spread_of_mean(values, np.zeros(50, np.int64))[1]
        assert carried == pytest.approx(number, abs=0.05)


@pytest.mark.parametrize(
    ("values", "value", "reason"),
    [
        (ONE, 0.06, "an effective 1.0 of 50 instances carry its spread: no interval"),
        (np.full(50, 0.1), 0.1, "the same on all 50 instances: no interval"),
        ([1.0, math.nan], math.nan, "not defined on all instances"),
        ([1.0], 1.0, "fewer than two instances: no interval"),
        ([], math.nan, "fewer than two instances: no interval"),
    ],
)
def test_a_mean_that_one_value_carries_has_a_reason_and_no_interval(values, value, reason):
    found = skewed_mean(values, 0.95, within=NOT_NEGATIVE, of="instances")
    assert (found.defined, found.reason) == (False, reason)
    assert found.value == pytest.approx(value, nan_ok=True)


def test_no_interval_of_a_mean_leaves_the_range():
    draws = np.random.default_rng(0)
    for chance in (0.05, 0.5, 0.95) * 7:
        found = skewed_mean(draws.random(40) < chance, 0.95, within=SHARES)
        assert found.defined == (found.reason == "")
        assert not found.defined or 0 <= found.low <= found.value <= found.high <= 1
        gaps = skewed_mean(draws.exponential(size=8) ** 3, 0.999, within=NOT_NEGATIVE)
        assert not gaps.defined or 0 <= gaps.low <= gaps.value <= gaps.high
