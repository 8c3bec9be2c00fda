"""Errors of means against sums written out: instances that stay, and instances drawn anew."""

import numpy as np
import pytest

from maxk_lab.statistics.deviations import Deviation
from maxk_lab.statistics.errors import (
    LIKE_THESE,
    MORE_SKEWNESS,
    MOST_FREEDOM,
    THESE,
    combined,
    effective_number,
    moment_errors,
    of_deviation,
    of_numbers,
    over_blocks,
    over_instances,
)
from maxk_lab.statistics.units import Units

# Two seeds of different numbers of instances.
MEMBERS = [np.arange(5), np.arange(5, 12)]
OF = np.array([1.0, -0.5, 2.0])


@pytest.fixture
def values():
    """Three numbers of twelve instances."""
    return np.random.default_rng(0).gamma(2.0, 1.0, (3, 12))


@pytest.fixture
def by_block():
    """How far six blocks of each lie from it, in each number: they sum to 0."""
    far = np.random.default_rng(1).gamma(1.0, 1.0, (3, 12, 6))
    return far - far.mean(2, keepdims=True)


def mean_of(numbers):
    """The mean over the instances of a seed, then over seeds."""
    return sum(numbers[m].mean() for m in MEMBERS) / len(MEMBERS)


def test_instances_drawn_anew_have_the_cumulants_of_their_sample(values):
    found = over_instances(values, MEMBERS).spread(OF)
    numbers = OF @ values
    variance, third, fourths = 0.0, 0.0, 0.0
    for m in MEMBERS:
        own, count = numbers[m], len(m)
        far = own - own.mean()
        variance += own.var(ddof=1) / count / 4
        unbiased = count * (far**3).sum() / ((count - 1) * (count - 2))
        third += unbiased / count**2 / 8
        fourths += ((far**2 / (4 * count * (count - 1))) ** 2).sum()
    assert found.mean == pytest.approx(mean_of(numbers))
    assert found.error == pytest.approx(np.sqrt(variance))
    assert found.skewness == pytest.approx(MORE_SKEWNESS * third / variance**1.5)
    assert found.freedom == pytest.approx(min(10, 2 * variance**2 / fourths))


def test_instances_that_stay_have_the_cumulants_of_their_blocks(values, by_block):
    found = over_blocks(values, by_block, MEMBERS).spread(OF)
    variance, third, squares = 0.0, 0.0, 0.0
    for m in MEMBERS:
        for i in m:
            far, weight = np.tensordot(OF, by_block[:, i], 1), 1 / (2 * len(m))
            own = weight**2 * (far**2).sum() / 5 / 6
            variance += own
            squares += own**2 / 5
            third += weight**3 * 6 * (far**3).sum() / (5 * 4) / 36
    assert found.mean == pytest.approx(mean_of(OF @ values))
    assert found.error == pytest.approx(np.sqrt(variance))
    assert found.skewness == pytest.approx(third / variance**1.5)
    # Welch and Satterthwaite.
    assert found.freedom == pytest.approx(variance**2 / squares)


@pytest.mark.parametrize("question", [THESE, LIKE_THESE])
def test_the_cumulants_of_a_difference_are_polynomials_in_the_factor(values, by_block, question):
    errors = (
        over_instances(values, MEMBERS)
        if question == LIKE_THESE
        else over_blocks(values, by_block, MEMBERS)
    )
    b = np.array([0.3, 1.0, -0.2])
    seconds, thirds = errors.powers(OF, b)
    for factor in (-2.0, 0.0, 0.7, 5.0):
        direct = errors.spread(OF - factor * b)
        assert np.polyval(seconds, factor) == pytest.approx(direct.error**2)
        assert np.polyval(thirds, factor) == pytest.approx(direct.skewness * direct.error**3)


def test_two_blocks_have_an_error_and_no_skewness_and_one_has_neither(values, by_block):
    two = by_block[:, :, :2] - by_block[:, :, :2].mean(2, keepdims=True)
    found = over_blocks(values, two, MEMBERS).spread(OF)
    assert (found.error > 0, found.skewness) == (True, 0.0)
    assert np.isnan(over_blocks(values, np.zeros((3, 12, 1)), MEMBERS).spread(OF).error)


def test_a_seed_of_one_instance_says_nothing_of_others(values):
    alone = over_instances(values, [np.arange(11), np.array([11])])
    assert np.isnan(alone.spread(OF).error)


def test_what_a_combination_leaves_out_may_be_unknown(values, by_block):
    by_block[1] = np.nan
    errors = over_blocks(values, by_block, MEMBERS)
    kept = over_blocks(values[[0, 2]], by_block[[0, 2]], MEMBERS)
    leaving_out, of = np.array([1.0, 0.0, 2.0]), np.array([1.0, 2.0])
    assert errors.spread(leaving_out).error == pytest.approx(kept.spread(of).error)
    assert np.isnan(errors.spread(OF).error)
    assert combined(leaving_out, by_block).tolist() == (by_block[0] + 2 * by_block[2]).tolist()


def test_the_mean_of_a_deviation_has_the_cumulants_of_its_instances():
    rng = np.random.default_rng(2)
    mean, variance, third = rng.normal(size=12), rng.gamma(1, 1, 12), rng.normal(size=12)
    found = of_deviation(Deviation(mean, variance, third, np.full(12, 5.0), 7), MEMBERS)
    weights = np.array([1 / 10] * 5 + [1 / 14] * 7)
    error = np.sqrt((weights**2 * variance).sum())
    assert (found.mean, found.error) == pytest.approx((mean_of(mean), error))
    assert found.skewness == pytest.approx((weights**3 * third).sum() / error**3)
    assert found.freedom == pytest.approx(7 * error**4 / (weights**4 * variance**2).sum())


def test_the_mean_of_numbers_with_errors_of_their_own():
    rng = np.random.default_rng(3)
    numbers, errors = rng.normal(size=12), rng.gamma(1, 1, 12)
    found = of_numbers(numbers, errors, MEMBERS, THESE, 4)
    weights = np.array([1 / 10] * 5 + [1 / 14] * 7)
    variances = (weights * errors) ** 2
    assert (found.mean, found.error) == pytest.approx((mean_of(numbers), variances.sum() ** 0.5))
    assert found.freedom == pytest.approx(4 * variances.sum() ** 2 / (variances**2).sum())
    default = of_numbers(numbers, errors, MEMBERS, THESE)
    assert default.freedom == pytest.approx(found.freedom * MOST_FREEDOM / 4)
    assert np.isnan(of_numbers(numbers, None, MEMBERS, THESE).error)
    # Instances that have no number are in no member.
    few = [np.array([0, 2]), np.array([6, 8, 9])]
    drawn = of_numbers(numbers, errors, few, LIKE_THESE)
    variance = sum(numbers[m].var(ddof=1) / len(m) for m in few) / 4
    assert drawn.error == pytest.approx(np.sqrt(variance))


def test_enumerated_moments_have_no_error_on_these_instances():
    columns = np.random.default_rng(4).gamma(1, 1, (4, 12))
    units = Units(np.repeat([0, 1], [5, 7]), *columns, tolerance=1e-9)
    assert moment_errors(units, THESE).spread(np.ones(4)).error == 0.0
    assert moment_errors(units, LIKE_THESE).spread(np.ones(4)).error > 0
    unknown = Units(np.repeat([0, 1], [5, 7]), *columns)
    assert np.isnan(moment_errors(unknown, THESE).spread(np.ones(4)).error)


def test_the_effective_number_of_instances():
    assert effective_number(np.ones(7)) == pytest.approx(7)
    assert effective_number(np.array([5.0, 0.0, 0.0])) == pytest.approx(1)
    assert effective_number(np.array([3.0, 1.0])) == pytest.approx(16 / 10)
    # Without its noise, and never more than there are.
    assert effective_number(np.array([3.0, 1.0]), 1.0) == pytest.approx(16 / 8)
    assert effective_number(np.array([3.0, 1.0]), 4.0) == pytest.approx(2)
    assert np.isnan(effective_number(np.array([1.0, -2.0])))
    assert np.isnan(effective_number(np.array([1e-170, 2e-170])))


def test_the_effective_number_is_not_lowered_by_noise():
    rng = np.random.default_rng(5)
    equal, variances = np.ones(400), np.full(400, 0.25)
    noisy = equal + rng.normal(0, 0.5, 400)
    assert effective_number(noisy) < 330
    assert effective_number(noisy, variances) == pytest.approx(400, rel=0.06)
