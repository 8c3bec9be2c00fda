"""The interval of a mean of any skewness: by hand, against Student's t, and where there is none."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from maxk_lab.ranges import NOT_NEGATIVE, SHARES, Range
from maxk_lab.statistics.skewed_mean import MORE_SKEWNESS, SkewedMean, skewed_mean

SKEWED = np.random.default_rng(0).lognormal(0, 1, 40)


def hall_by_hand(values, at):
    """Hall's transformation of the t statistic of a mean of `at`, with the enlarged skewness."""
    count = len(values)
    t = (values.mean() - at) / (values.std(ddof=1) / math.sqrt(count))
    skewness = MORE_SKEWNESS * stats.skew(values, bias=False) / math.sqrt(count)
    return t + skewness * (t**2 / 3 + 1 / 6) + skewness**2 * t**3 / 27


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("sign", [1, -1])
def test_each_end_is_the_further_of_hall_s_and_student_s(level, sign):
    values = sign * SKEWED
    found, point = skewed_mean(values, level), stats.t.isf((1 - level) / 2, len(values) - 1)
    half = point * stats.sem(values)
    low, high = (
        optimize.brentq(lambda at, wanted=wanted: hall_by_hand(values, at) - wanted, -9, 9)
        for wanted in (point, -point)
    )
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(min(low, values.mean() - half), abs=1e-9)
    assert found.high == pytest.approx(max(high, values.mean() + half), abs=1e-9)


def test_it_is_student_s_where_nothing_is_skewed():
    values = np.concatenate([SKEWED, -SKEWED])
    found, wanted = skewed_mean(values, 0.95), stats.ttest_1samp(values, 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert SkewedMean.of(values).p_value(0.3) == pytest.approx(
        stats.ttest_1samp(values, 0.3).pvalue
    )


@pytest.mark.parametrize("at", [0.9, 1.2, 2.0, 2.9])
def test_an_interval_at_the_p_value_ends_there(at):
    told = SkewedMean.of(SKEWED)
    ends = told.ends(1 - told.p_value(at))
    assert min(abs(end - at) for end in ends) < 1e-9


def test_strata_weigh_the_same_whatever_their_size():
    stratum = np.repeat([0, 1], [30, 10])
    told, parts = SkewedMean.of(SKEWED, stratum), (SKEWED[:30], SKEWED[30:])
    errors = [stats.sem(part) for part in parts]
    assert told.mean == pytest.approx(np.mean([part.mean() for part in parts]))
    assert told.error == pytest.approx(math.hypot(*errors) / 2)
    welch = stats.ttest_ind(parts[0], -parts[1], equal_var=False)
    assert told.freedom == pytest.approx(welch.df)
    assert skewed_mean(SKEWED, 0.95, stratum=np.zeros(40)) == skewed_mean(SKEWED, 0.95)


def test_the_effective_number_counts_what_carries_the_spread():
    one = np.zeros(50)
    one[7] = 3.0
    assert SkewedMean.of(one).effective == pytest.approx(1, abs=0.05)
    half = np.repeat([0.0, 1.0], 25)
    assert SkewedMean.of(half).effective == pytest.approx(50)


def test_a_mean_that_one_value_carries_has_a_reason_and_no_interval():
    one = np.zeros(50)
    one[7] = 3.0
    found = skewed_mean(one, 0.95, within=NOT_NEGATIVE, of="instances")
    assert (found.value, found.known) == (pytest.approx(0.06), False)
    assert found.reason == "an effective 1.0 of 50 instances carry its spread: no interval"
    same = skewed_mean(np.full(50, 0.1), 0.95)
    assert (same.value, same.reason) == (
        pytest.approx(0.1),
        "the same on all 50 values: no interval",
    )
    assert skewed_mean([1.0, math.nan], 0.95).reason == "not defined on all values"
    assert skewed_mean([1.0], 0.95).reason == "fewer than two values: no interval"


def test_bounded_values_still_have_the_interval_of_a_count():
    ones = np.zeros(50)
    ones[7] = 1.0
    found, wanted = skewed_mean(ones, 0.95, within=SHARES), stats.binomtest(1, 50).proportion_ci()
    assert (found.low, found.high) == pytest.approx((0, wanted.high))
    all_of_them = skewed_mean(np.ones(50), 0.95, within=SHARES)
    wanted = stats.binomtest(50, 50).proportion_ci()
    assert (all_of_them.low, all_of_them.high) == pytest.approx((wanted.low, wanted.high))
    # As far as the range goes, in both directions.
    other = skewed_mean(np.full(50, 3.0), 0.95, within=Range(2, 6))
    unseen = 1 - wanted.low
    assert (other.low, other.high) == pytest.approx((3 - unseen, 3 + 3 * unseen))


def test_a_value_that_hardly_differs_does_not_widen_the_interval_much():
    """One of 64 a little off: two may be, not as many as there are zeros and ones."""
    values = np.full(64, 0.4)
    same = skewed_mean(values, 0.95, within=SHARES)
    values[3] = 0.39
    found = skewed_mean(values, 0.95, within=SHARES)
    assert found.low < same.low < same.high < found.high
    assert found.width < 2 * same.width


def test_bounded_values_with_one_far_off_are_no_surer_than_zeros_and_ones():
    values = np.linspace(0, 1e-3, 40)
    values[-1] = 1.0
    found, ones = skewed_mean(values, 0.95, within=SHARES), values.sum()
    assert found.low < values.mean() < found.high < 1
    wanted = [stats.beta.ppf(0.025, ones, 41 - ones), stats.beta.ppf(0.975, ones + 1, 40 - ones)]
    assert (found.low, found.high) == pytest.approx(tuple(wanted))


@pytest.mark.parametrize("seed", range(20))
def test_no_interval_leaves_the_range(seed):
    draws = np.random.default_rng(seed)
    ones = (draws.random(12) < draws.choice([0.05, 0.5, 0.95])).astype(float)
    found = skewed_mean(ones, 0.95, within=SHARES)
    assert 0 <= found.low <= found.value <= found.high <= 1
    gaps = skewed_mean(draws.exponential(size=8) ** 3, 0.999, within=NOT_NEGATIVE)
    assert not gaps.known or 0 <= gaps.low <= gaps.value <= gaps.high
