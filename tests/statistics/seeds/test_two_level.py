"""Robust statistics of two-level data: values by hand, of one seed and of several."""

import math

import numpy as np
import pytest
from scipy import stats

from maxk_lab.ranges import NOT_NEGATIVE
from maxk_lab.statistics.seeds.over_seeds import over_seeds
from maxk_lab.statistics.seeds.two_level import (
    improvement,
    iqm,
    iqm_interval,
    probability_interval,
    quantile_interval,
)


def draw(number, seeds=5, instances=32):
    """Values [S, I] of a study: normal within seeds, whose level is normal."""
    rng = np.random.default_rng(number)
    return 0.5 * rng.normal(size=(seeds, 1)) + rng.normal(size=(seeds, instances))


@pytest.mark.parametrize("count", [4, 7, 8, 33])
def test_the_interquartile_mean_leaves_out_a_quarter_on_either_side(count):
    values = np.random.default_rng(count).normal(size=(3, count))
    wanted = [
        sum(sorted(row)[count // 4 : count - count // 4]) / (count - 2 * (count // 4))
        for row in values
    ]
    assert iqm(values) == pytest.approx(wanted)


def test_improvement_counts_pairs_and_half_of_the_ties():
    mine, theirs = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 2.0, 1.0, 0.0])
    wanted = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in zip(mine, theirs, strict=True)]
    assert improvement(mine, theirs).tolist() == wanted
    wins = improvement(mine, theirs).reshape(2, 2)
    assert probability_interval(wins, level=0.95).value == np.mean(wanted)


def test_of_several_seeds_each_has_a_value_of_its_own():
    values = np.exp(draw(0))
    wanted = over_seeds(iqm(values).tolist(), 0.95, NOT_NEGATIVE)
    assert iqm_interval(values, level=0.95, within=NOT_NEGATIVE) == wanted
    hazen = [np.quantile(row, 0.9, method="hazen") for row in values]
    assert quantile_interval(values, 0.9, level=0.95) == over_seeds(hazen, 0.95)


def test_the_quantiles_of_one_seed_are_between_two_of_its_values():
    """By the binomial distribution: X(40) and X(61) of 100 are at least 95 % about the median."""
    values = np.random.default_rng(1).permutation(np.arange(1.0, 101))[None]
    found = quantile_interval(values, 0.5, level=0.95)
    assert (found.low, found.value, found.high) == (40, 50.5, 61)
    below = stats.binom(100, 0.5)
    assert below.cdf(60) - below.cdf(39) >= 0.95
    assert below.cdf(39) <= 0.025


def test_the_interquartile_mean_of_one_seed_is_tukey_and_mclaughlin_s():
    values = draw(2, seeds=1, instances=40)
    found, point = iqm_interval(values, level=0.95), stats.t.isf(0.025, 40 - 20 - 1)
    error = stats.mstats.trimmed_stde(values[0], limits=(0.25, 0.25))
    assert found.value == pytest.approx(iqm(values)[0])
    assert found.high - found.value == pytest.approx(point * error)


def test_what_cannot_be_told_is_undefined():
    holes = draw(0)
    holes[2, 3] = np.nan
    for found in (
        iqm_interval(holes, level=0.95),
        quantile_interval(holes, 0.5, level=0.95),
        probability_interval(holes, level=0.95),
    ):
        assert math.isnan(found.value)
        assert found.reason == "not defined on every instance of every seed"
    assert iqm_interval(np.zeros((1, 1)), level=0.95).reason == "one value: no interval"
    tail = quantile_interval(draw(0), 0.99, level=0.95)
    assert math.isnan(tail.high)
    assert tail.reason == "p99: fewer than one of 32 instances is beyond it"
    assert not math.isnan(quantile_interval(draw(0, instances=128), 0.99, level=0.95).low)
    one = quantile_interval(draw(0, seeds=1, instances=128), 0.99, level=0.95)
    assert one.reason == "p99 of 128 instances: too few are beyond it"


@pytest.mark.parametrize(("seeds", "count"), [(5, 5), (1, 32)])
@pytest.mark.parametrize("won", [0.0, 1.0])
def test_a_win_of_every_pair_is_no_surer_than_the_count_of_seeds(seeds, count, won):
    """Clopper and Pearson: nothing of 5 seeds, or of 32 instances of one, is at most this."""
    found = probability_interval(np.full((seeds, 32), won), level=0.95)
    assert found.value == won
    assert found.high - found.low == pytest.approx(1 - 0.025 ** (1 / count))


def test_shares_of_seeds_have_the_interval_of_as_many_zeros_and_ones():
    wins = np.zeros((5, 128))
    wins[:2] = wins[2:4, ::2] = 1
    found = probability_interval(wins, level=0.95)
    counted = stats.binomtest(3, 5).proportion_ci()
    assert (found.value, found.question) == (0.6, "seeds")
    assert (found.low, found.high) == pytest.approx((counted.low, counted.high))
