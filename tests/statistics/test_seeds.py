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


def ends(mean):
    return mean.low, mean.high


def test_without_a_range_it_is_student_s():
    expected = stats.ttest_1samp(NORMAL, 0)
    ci = tuple(expected.confidence_interval(0.9))
    assert ends(seed_mean(NORMAL, 0.9)) == pytest.approx(ci)
    assert p_value(NORMAL) == pytest.approx(expected.pvalue)
    # Values outside a range have none, but for rounding.
    values = [-1.0, 0.2, 0.4]
    assert seed_mean(values, 0.95, SHARES) == seed_mean(values, 0.95, ANYWHERE)
    assert seed_mean([0.5, 0.9, 1 + 1e-9], 0.95, SHARES).high <= 1


def test_between_two_ends_it_is_on_the_logit_scale():
    """Three seeds of a pass@1 whose plain t interval begins below 0."""
    values = np.array([0.38, 0.22, 0.156])
    plain, logit = seed_mean(values, 0.95), seed_mean(values, 0.95, SHARES)
    assert plain.low < 0 < logit.low
    assert logit.value == plain.value
    half = (plain.high - plain.value) / (logit.value * (1 - logit.value))
    logits = special.logit([logit.low, logit.value, logit.high])
    assert np.diff(logits) == pytest.approx([half, half])
    stretched = seed_mean(2 + 3 * values, 0.95, Range(2, 5))
    assert ends(stretched) == pytest.approx((2 + 3 * logit.low, 2 + 3 * logit.high))


def test_above_one_end_it_is_that_of_log_normal_values():
    """Olsson's interval, for values of which none is small beside the others."""
    values = np.array([1.0, 2.0, 1.5, 3.0])
    mean, variance = np.log(values).mean(), np.log(values).var(ddof=1)
    half = stats.t.isf(0.025, 3) * math.sqrt(variance / 4 + variance**2 / 6)
    above, below = seed_mean(values, 0.95, NOT_NEGATIVE), seed_mean(-values, 0.95, NOT_POSITIVE)
    expected = [math.exp(mean + variance / 2 + side * half) for side in (-1, 1)]
    assert [*ends(above)] == [-below.high, -below.low] == pytest.approx(expected)


@pytest.mark.parametrize("within", [SHARES, NOT_NEGATIVE, Range(high=1.0)])
def test_no_interval_leaves_the_range(within):
    draws = np.random.default_rng(0)
    for _ in range(10):
        values = draws.beta(*draws.choice([0.1, 1, 30], 2), size=int(draws.integers(2, 6)))
        values[0] = draws.choice([0.0, 1.0])
        mean = seed_mean(values, 0.99, within)
        assert within.low <= mean.low < mean.value < mean.high <= within.high


@pytest.mark.parametrize("shift", [0.01, 0.1, 0.4])
def test_an_interval_at_the_p_value_ends_at_no_difference(shift):
    values = 0.1 * (NORMAL - 3) + shift
    skewed = np.random.default_rng(1).exponential(size=40) - 1 + shift
    for mean in (
        seed_mean(values, 1 - p_value(values)),
        seed_mean(values, 1 - p_value(values, SHARES.differences), SHARES.differences),
        instance_mean(skewed, 1 - instance_p_value(skewed)),
    ):
        assert min(map(abs, ends(mean))) < 1e-9


def test_where_seeds_do_not_differ_there_is_a_reason():
    for values, value, reason in (
        ([0.3, 0.3, 0.3], 0.3, "the same in every seed: no interval"),
        ([1.0, 1.0 + 3e-16, 1.0], 1.0, "the same in every seed: no interval"),
        ([0.3], math.nan, "one seed: no interval over seeds"),
        ([0.3, math.nan], math.nan, "not defined in every seed"),
    ):
        mean = seed_mean(values, 0.95, SHARES)
        assert (mean.defined, mean.reason) == (False, reason)
        assert mean.value == pytest.approx(value, nan_ok=True)
        assert math.isnan(p_value(values, SHARES))
        assert math.isnan(instance_p_value([0.0] * 9 + [values[-1]]))


def test_one_seed_is_over_its_instances():
    values = np.random.default_rng(0).normal(size=(5, 32))
    assert pooled_mean(values[:1], 0.95) == instance_mean(values[0], 0.95)
    assert pooled_mean(values, 0.95) == seed_mean(values.mean(1), 0.95)
    assert pool_means([(0.9, 0.7, 1.1)], 0.95, SHARES).high == 1
    assert pool_means([(0.9, None, None)], 0.95, SHARES).reason == "no interval over instances"
    assert pool_means([(0.9, None, None), (0.7, 0.6, 0.8)], 0.95) == seed_mean([0.9, 0.7], 0.95)
    # A record has one interval, at one level.
    mean = [(1.0, 0.5, 2.0)]
    assert pool_means(mean, 0.95) == Interval(1.0, 0.5, 2.0, 0.95, question=NEW)
    narrower = pool_means(mean, 0.8)
    assert (narrower.value, narrower.level, narrower.defined) == (1.0, 0.8, False)
    assert "recorded at 95% alone" in narrower.reason


@pytest.mark.parametrize(("q", "level"), [(0.5, 0.5), (0.9, 0.95), (0.99, 0.95), (0.5, 0.999)])
def test_a_quantile_lies_between_the_values_that_scipy_says(q, level):
    for count in (5, 16, 100, 128):
        values = np.random.default_rng(count).permutation(count) + 1.0
        expected = stats.quantile_test(values, q=0, p=q).confidence_interval(level)
        assert enclosing_values(values, q, level) == pytest.approx(tuple(expected), nan_ok=True)


def test_the_sign_test_is_binomial():
    for wins, losses in ((1, 0), (5, 0), (0, 11), (3, 7)):
        expected = stats.binomtest(wins, wins + losses).pvalue
        assert sign_test(wins, losses) == pytest.approx(expected)
    assert sign_test(0, 0) == 1


@pytest.mark.parametrize(("seeds", "critical"), [(3, 1.1543), (5, 1.7150), (8, 2.1266)])
def test_the_critical_values_are_those_of_grubbs(seeds, critical):
    """Two-sided at 5 %, from the tables of Grubbs' test."""
    base = np.random.default_rng(seeds).normal(size=seeds - 1)

    def excess(last, limit):
        values = np.append(base, last)
        return (last - values.mean()) / values.std(ddof=1) - limit

    for limit, which in ((critical - 1e-4, None), (critical + 1e-4, seeds - 1)):
        last = optimize.brentq(excess, base.max(), 1e3, args=(limit,))
        assert outlying(np.append(base, last)) == which


def test_an_outlying_seed_is_named():
    """The noise of the instances explains a distance between seeds."""
    ones = [1.0, 1.0, 1.0, 1.0]
    for values, noise, which in (
        ([-4.1, -4.12, -4.11, -7.9, -4.1], 0.0, 3),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.0, None),
        ([1.0, 9.0], 0.0, None),
        (ones, 0.0, None),
        ([*ones, math.nan], 0.0, None),
        ([*ones, 0.992], 0.0, 4),
        ([*ones, 0.992], 0.004, None),
        ([*ones, 0.5], 0.004, 4),
    ):
        assert outlying(values, noise) == which, values
