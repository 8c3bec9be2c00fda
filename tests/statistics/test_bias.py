"""Verdicts on bias: family-wise error, power, one instance among many, and what is proven."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from drawn_units import enumerated
from scipy import stats

from maxk_lab.statistics.bias import LEAST_P, TOO_FEW_DRAWS, bias_verdicts
from maxk_lab.statistics.deviations import LEAST_CARRYING, Deviation, instances_to_test
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import LEAST_SAMPLE

COLUMNS = ("mean", "variance", "third", "carrying")


def judged(units):
    """The verdict on these units alone."""
    return bias_verdicts({0: units})[0]


def only_on(index, value, count=16, other=0.0):
    """`value` on one instance, another on the rest."""
    found = np.full(count, other)
    found[index] = value
    return found


def test_scale_bias_and_direction_bias_are_told_apart(drawn):
    verdicts = bias_verdicts(
        {"fine": drawn(1), "scale": drawn(2, scale=0.5), "direction": drawn(3, off=0.5)}
    )
    assert [verdicts[key].verdict for key in ("fine", "scale", "direction")] == [
        "no bias seen",
        "scale bias",
        "biased",
    ]
    for key, bias in (("fine", 0.0), ("scale", 0.5), ("direction", 0.5)):
        found = verdicts[key]
        assert found.relative_bias == pytest.approx(bias, abs=0.03)
        assert found.relative_bias < found.at_most < found.relative_bias + 0.05


def test_a_factor_that_differs_between_instances_is_no_scale_bias(drawn):
    each = np.where(np.arange(16) % 2, 0.5, 1.0)
    assert judged(drawn(1, scale=each)).verdict == "biased"
    assert judged(drawn(1, scale=0.75)).verdict == "scale bias"


def test_the_bound_on_a_bias_is_the_upper_end_of_its_interval(drawn):
    units = drawn(1, np.full(16, 2.0), noise=0.4)
    assert interval(units, "squared_bias").value > 0
    found = bias_verdicts({0: units}, alpha=0.05)[0]
    squared, norm = interval(units, "squared_bias", level=0.9), units.truth.mean()
    assert found.at_most == pytest.approx(math.sqrt(squared.high / norm))
    assert found.relative_bias == pytest.approx(math.sqrt(squared.value / norm))


def test_an_estimate_below_zero_bounds_a_bias_no_closer_than_one_of_zero(drawn):
    """Those who got such a draw are not to be told less than the bias that all have."""
    alpha, off = 0.2, 0.06
    draws = [drawn(seed, (1.0,) * 4, noise=0.4, off=off) for seed in range(150)]
    found = [bias_verdicts({0: units}, alpha=alpha)[0] for units in draws]
    below = [verdict for verdict in found if verdict.relative_bias == 0]
    assert len(below) >= 30
    assert min(verdict.at_most for verdict in below) > 0
    wrong = sum(verdict.at_most < off for verdict in below)
    assert wrong <= stats.binom.ppf(0.999, len(below), alpha)


def test_a_deviation_has_the_cumulants_and_the_tests_of_a_mean():
    values = np.random.default_rng(0).gamma(9.0, 1.0, (3, 12)) - 7.0
    far = values - values.mean(1, keepdims=True)
    found = Deviation.of(values.mean(1), far)
    third = stats.kstat(values, 3, axis=1) / 144
    carrying = (far**2).sum(1) ** 2 / (far**4).sum(1)
    for name, wanted in (("variance", values.var(1, ddof=1) / 12), ("third", third)):
        assert getattr(found, name) == pytest.approx(wanted)
    assert found.carrying == pytest.approx(carrying)
    assert found.freedom == 11
    for i in range(3):
        alone = replace(found, **{name: getattr(found, name)[i : i + 1] for name in COLUMNS})
        spread = alone.spread(np.zeros(1, dtype=np.int64))
        assert spread.skewness == pytest.approx(third[i] / found.variance[i] ** 1.5)


def test_the_instances_to_test_are_those_whose_mean_most_draws_carry():
    size, alike = np.ones(4), np.full(4, LEAST_CARRYING / 4)
    assert instances_to_test(size, alike).all()
    assert not instances_to_test(size, 0.99 * alike).any()
    # One that nothing carries is left out; of small size it does no harm.
    carrying = np.array([1e-9, 100.0, 100.0, 0.0])
    assert instances_to_test(size, carrying).tolist() == [False, True, True, False]
    assert instances_to_test(np.array([1e-20, 1, 1, 1]), carrying)[0]
    assert instances_to_test(1e-150 * size, 4 * alike).all()
    assert not instances_to_test(np.zeros(0), np.zeros(0)).any()
    assert instances_to_test(size, np.array([np.inf] * 4)).all()


def test_what_is_not_tested_enters_no_test(drawn):
    """Groups without any weight agree that the estimate is 0, and have no error."""
    units = drawn(1, scale=[1.0] * 15 + [0.0])
    assert judged(units).verdict == "biased"
    carrying = np.where(np.arange(16) < 15, 100.0, 1e-6)
    found = judged(replace(units, carrying=carrying))
    assert found.verdict == "no bias seen"
    assert judged(replace(units, carrying=carrying / 1e3)).reason == TOO_FEW_DRAWS


def test_no_p_value_is_zero_and_no_bias_below_rounding_is_detectable(drawn):
    assert judged(drawn(1, scale=0.5, noise=1e-3)).p_value == LEAST_P
    units = drawn(1)
    along = replace(units.deviations.along, variance=np.full(16, 1e-27))
    exact = judged(replace(units, deviations=replace(units.deviations, along=along)))
    assert math.isnan(exact.detectable)
    assert exact.reason.startswith("below the rounding")


def test_the_mean_of_a_deviation_has_the_cumulants_of_its_instances():
    rng = np.random.default_rng(2)
    mean, variance, third = rng.normal(size=12), rng.gamma(1, 1, 12), rng.normal(size=12)
    found = Deviation(mean, variance, third, np.full(12, 5.0), 7).spread(np.repeat([0, 1], [5, 7]))
    weights = np.array([1 / 10] * 5 + [1 / 14] * 7)
    error = np.sqrt((weights**2 * variance).sum())
    assert (found.mean, found.error) == pytest.approx((weights @ mean, error))
    assert found.skewness == pytest.approx((weights**3 * third).sum() / error**3)
    assert found.freedom == pytest.approx(7 * error**4 / (weights**4 * variance**2).sum())


def test_the_reference_is_named_and_small_numbers_are_not_taken_for_it(drawn):
    units = drawn(0)
    same = replace(units, mean_square=units.truth, inner=units.truth)
    assert judged(same).verdict == "reference"
    small = drawn(1, np.full(16, 1e-7), scale=0.5)
    assert judged(small).verdict == "scale bias"


@pytest.mark.parametrize(
    ("blocks", "verdict", "reason"),
    [
        (2, "undefined", "fewer than three groups an instance: no test"),
        (3, "no bias seen", f"fewer than {LEAST_SAMPLE} groups an instance"),
        (LEAST_SAMPLE - 2, "no bias seen", f"fewer than {LEAST_SAMPLE} groups an instance"),
        (LEAST_SAMPLE, "no bias seen", ""),
    ],
)
def test_few_groups_promise_nothing_and_two_are_not_judged(drawn, blocks, verdict, reason):
    found = judged(drawn(0, blocks=blocks))
    assert found.verdict == verdict
    assert found.reason.startswith(reason)
    assert math.isnan(found.detectable) == bool(reason)
    assert math.isnan(found.at_most) == (verdict == "undefined")


def test_without_a_gradient_or_deviations_there_is_no_verdict(drawn):
    units = drawn(0)
    far = np.random.default_rng(0).normal(0, 10.0, units.within.shape)
    lost = replace(units, within=far - far.mean(2, keepdims=True))
    for found, reason in (
        (replace(units, truth=np.full(16, np.nan)), "no gradient to judge against"),
        (replace(units, deviations=None), "fewer than three groups an instance"),
        (lost, "is not significantly above zero"),
    ):
        assert judged(found).verdict == "undefined"
        assert reason in judged(found).reason


def test_enumerated_cells_are_judged_by_the_worst_instance_and_their_tolerance():
    known = partial(enumerated, truth=(1.0, 4.0))
    verdicts = bias_verdicts(
        {
            "rounding": known([1e-20, 4e-20], [1e-20, 4e-20]),
            "one instance": known([1e-20, 1e-10], [1e-20, 1e-10]),
            "single precision": known([1e-20, 1e-10], [1e-20, 1e-10], tolerance=1e-4),
            "scale": known([0.25, 1.0], [0.0, 0.0], scale=0.5),
            "direction": known([0.25, 1.0], [0.0, 0.1], scale=0.5),
            "a scale for each": known([0.25, 0.0], [0.0, 0.0], scale=np.array([0.5, 1.0])),
        }
    )
    expected = ["unbiased", "biased", "unbiased", "scale bias", "biased", "biased"]
    assert [verdict.verdict for verdict in verdicts.values()] == expected
    assert verdicts["scale"].relative_bias == verdicts["scale"].at_most == pytest.approx(0.5)
    assert verdicts["scale"].detectable == 1e-9
    assert verdicts["rounding"].at_most == verdicts["rounding"].detectable == 1e-9
    assert verdicts["single precision"].at_most == 1e-4


def test_an_instance_without_a_gradient_is_judged_by_the_size_of_its_estimates():
    flat = enumerated([1e-20, 1e-30], [1e-20, 1e-30], truth=(1.0, 0.0))
    assert judged(flat).verdict == "unbiased"
    moved = enumerated([1e-20, 1e-10], [1e-20, 1e-10], truth=(1.0, 0.0))
    assert judged(moved).verdict == "biased"
    nothing = enumerated([0.0, 0.0], [0.0, 0.0], truth=(0.0, 0.0))
    assert "zero on every instance" in judged(nothing).reason


def test_enumerated_cells_take_no_part_in_the_correction(drawn):
    alone = {i: drawn(i) for i in range(3)}
    with_proven = alone | {f"proven {i}": enumerated([0.0, 0.0], [0.0, 0.0]) for i in range(50)}
    found = bias_verdicts(with_proven)
    # Nothing was found on any, and NaN equals nothing.
    assert [repr(found[key]) for key in alone] == [repr(v) for v in bias_verdicts(alone).values()]
