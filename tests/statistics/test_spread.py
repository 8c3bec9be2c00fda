"""The skewness of an estimate is taken out of its test and of its interval alike."""

import math

import numpy as np
import pytest
from scipy import stats

from maxk_lab.statistics.spread import (
    Spread,
    one_without_skewness,
    reach_of_t,
    without_skewness,
)

SKEWNESSES = (-1.5, -0.3, 0.0, 1e-12, 0.2, 1.0, 3.0)


@pytest.mark.parametrize("skewness", SKEWNESSES)
@pytest.mark.parametrize(("freedom", "level"), [(3, 0.95), (15, 0.95), (40.5, 0.8), (200, 0.999)])
def test_the_ends_are_the_means_that_are_rejected_at_just_this_level(skewness, freedom, level):
    found = Spread(2.0, 0.5, skewness, freedom)
    low, high = found.ends(level)
    assert low < 2.0 < high
    for end, side in ((low, 1), (high, -1)):
        away = Spread(2.0 - end, 0.5, skewness, freedom)
        assert away.p_apart() == pytest.approx(1 - level, rel=1e-9)
        assert math.copysign(1, away.t()) == side
    assert Spread(2.0 - low - 0.01, 0.5, skewness, freedom).p_apart() > 1 - level
    assert Spread(2.0 - low + 0.01, 0.5, skewness, freedom).p_apart() < 1 - level


@pytest.mark.parametrize("skewness", SKEWNESSES)
def test_the_farther_end_is_as_far_as_an_estimate_with_that_p_value(skewness):
    far = Spread(0.0, 1.0, skewness, 7).farthest(0.01)
    p_values = [Spread(side * far, 1.0, skewness, 7).p_apart() for side in (1, -1)]
    assert max(p_values) == pytest.approx(0.02, rel=1e-9)


def test_without_skewness_they_are_students():
    values = np.random.default_rng(0).normal(0.3, 1.0, 12)
    found = Spread(values.mean(), values.std(ddof=1) / math.sqrt(12), 0.0, 11)
    assert found.p_apart() == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue)
    above = stats.ttest_1samp(values, 0.0, alternative="greater").pvalue
    assert found.p_above() == pytest.approx(above)
    wanted = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert found.ends(0.9) == pytest.approx((wanted.low, wanted.high))


def test_what_does_not_vary_is_known_or_not_at_all():
    point = Spread(2.0, 0.0, 0.0, 5)
    assert (point.ends(0.95), point.p_apart(), point.p_above()) == ((2.0, 2.0), 1.0, 1.0)
    unknown = Spread(2.0, math.nan, 0.0, 5)
    assert np.isnan(unknown.ends(0.95)).all()
    assert (unknown.p_apart(), unknown.p_above()) == (1.0, 1.0)


def test_a_transformed_statistic_is_never_farther_from_zero_nor_on_its_other_side():
    t, skewness = np.meshgrid(np.linspace(-8, 8, 65), np.linspace(-4, 4, 33))
    found = without_skewness(t, skewness)
    assert (np.abs(found) <= np.abs(t)).all()
    assert (found * t >= 0).all()
    # Hall's cubic, by hand: 2 - 0.5 · 4/3 + 0.25 · 8/27 - 0.5/6 = 1.32407.
    assert float(without_skewness(2.0, -0.5)) == pytest.approx(1.3240740740740742)


@pytest.mark.parametrize("skewness", SKEWNESSES)
def test_one_t_statistic_is_as_in_an_array_of_them(skewness):
    draws = np.random.default_rng(5)
    many = [*(draws.normal(size=500) * 10 ** draws.uniform(-3, 2, 500)), 0.0, 1e99, -math.inf]
    alone = [one_without_skewness(float(t), skewness) for t in many]
    assert alone == [float(without_skewness(float(t), skewness)) for t in many]


@pytest.mark.parametrize("freedom", [0.7, 3, 40.5, 1e9])
def test_the_reach_is_that_of_students_t(freedom):
    assert reach_of_t(freedom, 0.025) == stats.t.isf(0.025, freedom)
    assert math.isnan(reach_of_t(math.nan, 0.025))
