"""Intervals over seeds, outlier seeds and the sign test."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, NOT_POSITIVE, SHARES, Range
from maxk_lab.statistics.estimates import Interval
from maxk_lab.statistics.measures import NEW
from maxk_lab.statistics.seeds import (
    enclosing_values,
    instance_mean,
    instance_p_value,
    outlying,
    p_value,
    pool_means,
    pooled_mean,
    seed_mean,
    sign_test,
)

NORMAL = np.random.default_rng(0).normal(3, 1, 5)


def draw(number, seeds=5, instances=32):
    """Values [S, I] of a study: normal within seeds, whose level is normal."""
    rng = np.random.default_rng(number)
    return 0.5 * rng.normal(size=(seeds, 1)) + rng.normal(size=(seeds, instances))


def test_without_a_range_it_is_student_s():
    found, wanted = seed_mean(NORMAL, 0.9), stats.ttest_1samp(NORMAL, 0)
    assert (found.low, found.high) == pytest.approx(tuple(wanted.confidence_interval(0.9)))
    assert p_value(NORMAL) == pytest.approx(wanted.pvalue)


def test_between_two_ends_it_is_on_the_logit_scale():
    """The three seeds of a pass@1 whose plain t interval begins below 0."""
    values = np.array([0.38, 0.22, 0.156])
    plain, found = seed_mean(values, 0.95), seed_mean(values, 0.95, SHARES)
    assert plain.low < 0 < found.low
    assert found.value == plain.value
    half = (plain.high - plain.value) / (found.value * (1 - found.value))
    logits = special.logit([found.low, found.value, found.high])
    assert np.diff(logits) == pytest.approx([half, half])
    stretched = seed_mean(2 + 3 * values, 0.95, Range(2, 5))
    assert (stretched.low, stretched.high) == pytest.approx((2 + 3 * found.low, 2 + 3 * found.high))


def test_above_one_end_it_is_that_of_log_normal_values():
    """Olsson's, for values of which none is small beside the others."""
    values = np.array([1.0, 2.0, 1.5, 3.0])
    logs = np.log(values)
    middle, variance = logs.mean() + logs.var(ddof=1) / 2, logs.var(ddof=1)
    half = stats.t.isf(0.025, 3) * math.sqrt(variance / 4 + variance**2 / 6)
    found, below = seed_mean(values, 0.95, NOT_NEGATIVE), seed_mean(-values, 0.95, NOT_POSITIVE)
    wanted = math.exp(middle - half), math.exp(middle + half)
    assert (found.low, found.high) == (-below.high, -below.low) == pytest.approx(wanted)


@pytest.mark.parametrize("within", [SHARES, NOT_NEGATIVE, Range(high=1.0)])
def test_no_interval_leaves_the_range(within):
    draws = np.random.default_rng(0)
    for _ in range(10):
        values = draws.beta(*draws.choice([0.1, 1, 30], 2), size=int(draws.integers(2, 6)))
        values[0] = draws.choice([0.0, 1.0])
        found = seed_mean(values, 0.99, within)
        assert within.low <= found.low < found.value < found.high <= within.high


def test_a_range_that_the_values_do_not_keep_is_none():
    values = [-1.0, 0.2, 0.4]
    assert seed_mean(values, 0.95, SHARES) == seed_mean(values, 0.95, ANYWHERE)
    assert seed_mean([0.5, 0.9, 1 + 1e-9], 0.95, SHARES).high <= 1


@pytest.mark.parametrize("shift", [0.01, 0.1, 0.4])
def test_an_interval_at_the_p_value_ends_at_no_difference(shift):
    values = 0.1 * (NORMAL - 3) + shift
    for within in (ANYWHERE, SHARES.differences):
        found = seed_mean(values, 1 - p_value(values, within), within)
        assert min(abs(found.low), abs(found.high)) < 1e-9
    shifted = np.random.default_rng(1).exponential(size=40) - 1 + shift
    found = instance_mean(shifted, 1 - instance_p_value(shifted))
    assert min(abs(found.low), abs(found.high)) < 1e-9


@pytest.mark.parametrize(
    ("values", "value", "reason"),
    [
        ([0.3, 0.3, 0.3], 0.3, "the same in every seed: no interval"),
        ([0.3], math.nan, "one seed: no interval over seeds"),
        ([0.3, math.nan], math.nan, "not defined in every seed"),
    ],
)
def test_where_nothing_differs_there_is_a_reason(values, value, reason):
    found = seed_mean(values, 0.95, SHARES)
    assert (found.defined, found.reason) == (False, reason)
    assert found.value == pytest.approx(value, nan_ok=True)
    assert math.isnan(p_value(values))
    assert math.isnan(instance_p_value([0.0] * 9 + [values[-1]]))


def test_one_seed_is_over_its_instances():
    values = draw(0)
    assert pooled_mean(values[:1], 0.95) == instance_mean(values[0], 0.95)
    assert pooled_mean(values, 0.95) == seed_mean(values.mean(1), 0.95)
    assert pool_means([(0.9, 0.7, 1.1)], 0.95, SHARES).high == 1
    assert pool_means([(0.9, None, None)], 0.95, SHARES).reason == "no interval over instances"
    assert pool_means([(0.9, None, None), (0.7, 0.6, 0.8)], 0.95) == seed_mean([0.9, 0.7], 0.95)
    # That of a record is at its level alone.
    mean = [(1.0, 0.5, 2.0)]
    assert pool_means(mean, 0.95) == Interval(1.0, 0.5, 2.0, 0.95, question=NEW)
    other = pool_means(mean, 0.8)
    assert (other.value, other.level, other.defined) == (1.0, 0.8, False)
    assert "recorded at 95% alone" in other.reason


@pytest.mark.parametrize(("q", "level"), [(0.5, 0.5), (0.9, 0.95), (0.99, 0.95), (0.5, 0.999)])
def test_a_quantile_lies_between_the_values_that_scipy_says(q, level):
    for count in (5, 16, 100, 128):
        values = np.random.default_rng(count).permutation(count) + 1.0
        wanted = stats.quantile_test(values, q=0, p=q).confidence_interval(level)
        assert enclosing_values(values, q, level) == pytest.approx(tuple(wanted), nan_ok=True)


def test_the_sign_test_is_binomial():
    for count in range(1, 12):
        assert sign_test(count, 0) == pytest.approx(stats.binomtest(count, count).pvalue)
    assert sign_test(0, 0) == 1


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


@pytest.mark.parametrize(
    ("values", "noise", "which"),
    [
        ([-4.1, -4.12, -4.11, -7.9, -4.1], 0.0, 3),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.0, None),
        ([1.0, 9.0], 0.0, None),
        ([1.0, 1.0, 1.0], 0.0, None),
        ([1.0, math.nan, 1.0, 1.0], 0.0, None),
        # What instances explain is not apart.
        ([1.0, 1.0, 1.0, 1.0, 0.992], 0.0, 4),
        ([1.0, 1.0, 1.0, 1.0, 0.992], 0.004, None),
        ([1.0, 1.0, 1.0, 1.0, 0.5], 0.004, 4),
    ],
)
def test_one_seed_apart_is_named(values, noise, which):
    assert outlying(values, noise) == which
