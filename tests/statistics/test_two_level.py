"""Robust statistics of two-level data: values by hand, and coverage whether or not seeds differ."""

import math
from functools import partial

import numpy as np
import pytest

from maxk_lab.statistics.two_level import (
    improvement,
    iqm,
    probability_interval,
    quantile_interval,
    two_level,
)

STUDIES = 150
# Four standard errors of a binomial share of that many studies at 95 %.
SLACK = 4 * math.sqrt(0.95 * 0.05 / STUDIES)


def draw(number, between, seeds=5, instances=32):
    """Values [S, I] of a study: normal within seeds, whose level is normal with that spread."""
    rng = np.random.default_rng([number, round(1000 * between)])
    return between * rng.normal(size=(seeds, 1)) + rng.normal(size=(seeds, instances))


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
    assert probability_interval(
        improvement(mine, theirs).reshape(2, 2), level=0.95
    ).value == np.mean(wanted)


def test_a_quantile_is_that_of_all_values():
    values = draw(0, 0.5)
    assert quantile_interval(values, 0.9, level=0.95).value == np.quantile(values.ravel(), 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("between", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("name", ["iqm", "p50"])
def test_intervals_cover(between, name):
    """Both have the truth 0, by symmetry.

    Where seeds do not differ the floor of the instances makes it cover more.
    """
    of = {"iqm": partial(two_level, statistic=iqm), "p50": partial(quantile_interval, q=0.5)}[name]
    found = [of(draw(number, between), level=0.95) for number in range(STUDIES)]
    hits = np.mean([one.low <= 0 <= one.high for one in found])
    assert hits >= 0.95 - SLACK
    assert between == 0.0 or hits <= 0.995


def test_a_naive_two_level_bootstrap_would_be_half_as_wide_again():
    """Why the levels are resampled apart: together, the spread of the instances counts twice."""
    widths = []
    for number in range(20):
        values, rng = draw(number, 0.0), np.random.default_rng(number)
        seeds = rng.integers(0, 5, (400, 5, 1))
        means = values[seeds, rng.integers(0, 32, (400, 5, 32))].reshape(400, -1).mean(axis=1)
        naive = 2 * 2.776 * math.sqrt(5 / 4) * means.std()
        widths.append(two_level(values, partial(np.mean, axis=-1)).width / naive)
    assert np.mean(widths) < 0.8


@pytest.mark.parametrize("chance", [0.5, 0.7, 0.9])
def test_the_probability_of_improvement_covers(chance):
    """Wins of seeds whose own chance varies around the given one."""
    hits = []
    for number in range(STUDIES):
        rng = np.random.default_rng([number, round(100 * chance)])
        own = np.clip(chance + 0.08 * rng.uniform(-1, 1, (5, 1)), 0, 1)
        found = probability_interval((rng.uniform(size=(5, 32)) < own).astype(float), level=0.95)
        assert 0 <= found.low <= found.high <= 1
        hits.append(found.low <= chance <= found.high)
    assert 0.95 - SLACK <= np.mean(hits) <= 1


def test_one_seed_is_over_its_instances():
    found = [two_level(draw(number, 0.0, seeds=1), iqm) for number in range(STUDIES)]
    assert abs(np.mean([one.low <= 0 <= one.high for one in found]) - 0.95) < SLACK


def test_the_same_data_has_the_same_interval():
    assert two_level(draw(3, 0.2), iqm) == two_level(draw(3, 0.2), iqm)


def test_what_cannot_be_told_is_undefined():
    holes = draw(0, 0.0)
    holes[2, 3] = np.nan
    assert math.isnan(two_level(holes, iqm).value)
    assert "not defined on every instance" in two_level(holes, iqm).reason
    assert two_level(np.zeros((1, 1)), iqm).reason == "one value: no interval"
    tail = quantile_interval(draw(0, 0.0), 0.99, level=0.95)
    assert math.isnan(tail.high)
    assert tail.reason == "p99 of 160 values has only 1 beyond it"
    assert not math.isnan(quantile_interval(draw(0, 0.0, instances=128), 0.99, level=0.95).low)


@pytest.mark.parametrize("won", [0.0, 1.0])
def test_a_win_of_every_pair_still_has_an_interval(won):
    """Clopper and Pearson: nothing of 160 is at most 1 − 0.025^(1/160)."""
    found = probability_interval(np.full((5, 32), won), level=0.95)
    reach = 1 - 0.025 ** (1 / 160)
    assert found.value == won
    assert found.high - found.low == pytest.approx(reach)
