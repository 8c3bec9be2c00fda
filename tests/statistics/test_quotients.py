"""The interval of a quotient is the set of values that a test, run for each, does not reject."""

import math

import numpy as np
import pytest
from scipy import stats

from maxk_lab.statistics.errors import LIKE_THESE, THESE, Errors, over_blocks, over_instances
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.statistics.quotients import (
    NO_ERROR,
    Tangent,
    polynomial,
    quotient,
    ratio_of,
    tangent,
)
from maxk_lab.statistics.spread import Spread

FIRST, SECOND = np.eye(2)
MEMBERS = [np.arange(8), np.arange(8, 20)]


def sampled(seed, question, noise=0.4):
    """Two correlated, skewed numbers of twenty instances, and the errors of their means."""
    rng = np.random.default_rng(seed)
    values = rng.gamma(1 / noise, noise, 20) * rng.gamma(2 / noise, noise, (2, 20))
    if question == LIKE_THESE:
        return over_instances(values, MEMBERS)
    far = rng.gamma(1.0, 3 * noise, (2, 20, 8))
    return over_blocks(values, far - far.mean(2, keepdims=True), MEMBERS)


def ends_on_a_grid(errors, level, values):
    """The least and the largest of values that are not rejected, without a gap between them."""
    at = errors.means[0] / errors.means[1]
    reach = stats.t.isf((1 - level) / 2, errors.spread(FIRST - at * SECOND).freedom)
    kept = []
    for value in values:
        found = errors.spread(FIRST - value * SECOND)
        if abs(Spread(found.mean, found.error, found.skewness, found.freedom).t()) <= reach:
            kept.append(value)
    return kept[0], kept[-1], np.diff(kept).max()


@pytest.mark.parametrize("question", [THESE, LIKE_THESE])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("level", [0.5, 0.95, 0.998])
def test_the_ends_are_those_of_a_search_over_a_grid(question, seed, level):
    errors = sampled(seed, question, noise=0.2)
    top, bottom = Tangent(errors.means[0], FIRST), Tangent(errors.means[1], SECOND)
    found = quotient(errors, top, bottom, level)
    width = found.high - found.low
    grid = np.arange(found.low - width, found.high + width, width / 1000)
    low, high, gap = ends_on_a_grid(errors, level, grid)
    assert (low, high) == pytest.approx((found.low, found.high), abs=width / 900)
    assert gap <= width / 900
    assert found.low < found.value < found.high


@pytest.mark.parametrize("question", [THESE, LIKE_THESE])
@pytest.mark.parametrize("seed", range(4))
def test_over_a_number_that_is_known_it_is_the_interval_of_the_mean(question, seed):
    errors = sampled(seed, question)
    top = Tangent(errors.means[0], FIRST)
    found = quotient(errors, top, Tangent(2.0, np.zeros(2)), 0.95)
    low, high = errors.spread(FIRST).ends(0.95)
    assert (found.low, found.high) == pytest.approx((low / 2, high / 2), rel=1e-7)


def test_what_has_no_error_is_a_point():
    """The first number is twice the second on every instance, whatever these are."""
    errors = sampled(0, LIKE_THESE)
    double = Errors(
        np.array([2.0, 1.0]) * errors.means[1],
        np.stack([2 * errors.parts[1], errors.parts[1]]),
        errors.thirds,
        errors.freedom,
        LIKE_THESE,
    )
    top, bottom = Tangent(double.means[0], FIRST), Tangent(double.means[1], SECOND)
    assert quotient(double, top, bottom, 0.95) == (2.0, 2.0, 2.0, "")


def test_without_errors_there_is_a_value_and_a_reason():
    errors = over_blocks(np.ones((2, 20)), np.full((2, 20, 2), np.nan), MEMBERS)
    found = quotient(errors, Tangent(1.0, FIRST), Tangent(1.0, SECOND), 0.95)
    assert (found.value, found.reason) == (1.0, NO_ERROR)
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize("bottom", [0.0, -1.0, math.nan])
def test_nothing_is_divided_by_what_is_not_positive(bottom):
    errors = sampled(0, LIKE_THESE)
    found = quotient(errors, Tangent(1.0, FIRST), Tangent(bottom, SECOND), 0.95)
    assert math.isnan(found.value)
    assert "not positive" in found.reason


def test_an_end_is_infinite_where_the_denominator_cannot_be_told_from_zero():
    rng = np.random.default_rng(1)
    values = np.stack([10 + rng.normal(size=20), rng.normal(size=20)])
    values[1] += 0.3 - values[1].mean()
    errors = over_instances(values, [np.arange(20)])
    assert errors.spread(SECOND).ends(0.95)[0] < 0
    tangents = Tangent(errors.means[0], FIRST), Tangent(errors.means[1], SECOND)
    found = quotient(errors, *tangents, 0.95)
    assert found.high == math.inf
    assert 0 < found.low < found.value
    told = quotient(errors, *tangents, 0.01)
    assert told.high < math.inf


def test_the_tangent_of_a_linear_function_is_that_function():
    means = np.array([3.0, 0.0, -2.0])
    value, slopes = tangent(lambda m: 2 * m[0] - m[2], means)
    assert value == 8.0
    assert slopes == pytest.approx([2.0, 0.0, -1.0])
    assert tangent(lambda m: np.ones(m.shape[1:]), means).slopes == pytest.approx(np.zeros(3))
    product = tangent(lambda m: m[0] * m[2] ** 2, means)
    assert product.slopes == pytest.approx([4.0, 0.0, -12.0])


@pytest.mark.parametrize("name", ["variance", "snr", "scale", "cosine", "squared_bias"])
def test_a_measure_is_the_quotient_of_its_two_functions(name):
    means = np.array([7.0, 3.0, 2.0, 4.0])
    top, bottom = ratio_of(MEASURES.get(name))
    by_hand = {
        "variance": 4,
        "snr": 3 / 4,
        "scale": 2 / 4,
        "cosine": 2 / math.sqrt(12),
        "squared_bias": 3 - 4 + 4,
    }
    assert top(means) / bottom(means) == pytest.approx(by_hand[name])


def test_a_polynomial_is_that_of_numpy_to_the_last_bit():
    rng = np.random.default_rng(3)
    for coefficients in rng.normal(size=(50, 4)).tolist():
        for at in (0.0, -0.3, 1e-9, 7.25):
            assert polynomial(coefficients, at) == np.polyval(coefficients, at)
