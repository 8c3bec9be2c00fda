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
from maxk_lab.statistics.units import Units


def judged(units, **options):
    """The verdict on these units alone."""
    return bias_verdicts({0: units}, **options)[0]


def test_scale_bias_and_direction_bias_differ(drawn):
    """A factor that differs between instances is no scale bias."""
    factors = np.where(np.arange(16) % 2, 0.5, 1.0)
    for units, expected, bias in (
        (drawn(1), "no bias seen", 0.0),
        (drawn(2, scale=0.5), "scale bias", 0.5),
        (drawn(3, off=0.5), "biased", 0.5),
        (drawn(1, scale=factors), "biased", math.sqrt(1 / 8)),
        (drawn(1, np.full(16, 1e-7), scale=0.5), "scale bias", 0.5),
    ):
        verdict = judged(units)
        assert verdict.verdict == expected
        assert verdict.relative_bias == pytest.approx(bias, abs=0.03)
        assert verdict.relative_bias < verdict.at_most < verdict.relative_bias + 0.05


def test_the_bound_on_a_bias_is_the_upper_end_of_its_interval(drawn):
    units = drawn(1, np.full(16, 2.0), noise=0.4)
    verdict, norm = judged(units, alpha=0.05), units.truth.mean()
    squared = interval(units, "squared_bias", level=0.9)
    assert squared.value > 0
    assert verdict.at_most == pytest.approx(math.sqrt(squared.high / norm))
    assert verdict.relative_bias == pytest.approx(math.sqrt(squared.value / norm))


def test_an_estimate_below_zero_bounds_a_bias_no_closer_than_one_of_zero(drawn):
    """Among such draws, the bound is below the true bias in a share of `alpha` at most."""
    alpha, off = 0.2, 0.06
    draws = [drawn(seed, (1.0,) * 4, noise=0.4, off=off) for seed in range(120)]
    verdicts = [judged(units, alpha=alpha) for units in draws]
    below = [verdict.at_most for verdict in verdicts if verdict.relative_bias == 0]
    assert len(below) >= 24
    assert min(below) > 0
    wrong = sum(bound < off for bound in below)
    assert wrong <= stats.binom.ppf(0.999, len(below), alpha)


def test_a_deviation_has_the_cumulants_and_the_tests_of_a_mean():
    values = np.random.default_rng(0).gamma(9.0, 1.0, (3, 12)) - 7.0
    blocks = values - values.mean(1, keepdims=True)
    deviation = Deviation.of(values.mean(1), blocks)
    variance, third = values.var(1, ddof=1) / 12, stats.kstat(values, 3, axis=1) / 144
    carrying = (blocks**2).sum(1) ** 2 / (blocks**4).sum(1)
    assert (deviation.variance, deviation.third, deviation.freedom) == (
        pytest.approx(variance),
        pytest.approx(third),
        11,
    )
    assert deviation.carrying == pytest.approx(carrying)


def test_the_mean_of_a_deviation_has_the_cumulants_of_its_instances():
    rng = np.random.default_rng(2)
    mean, variance, third = rng.normal(size=12), rng.gamma(1, 1, 12), rng.normal(size=12)
    stratum = np.repeat([0, 1], [5, 7])
    spread = Deviation(mean, variance, third, np.full(12, 5.0), 7).spread(stratum)
    weights = np.array([1 / 10] * 5 + [1 / 14] * 7)
    error = np.sqrt((weights**2 * variance).sum())
    skewness = (weights**3 * third).sum() / error**3
    freedom = 7 * error**4 / (weights**4 * variance**2).sum()
    expected = (weights @ mean, error, skewness, freedom)
    assert (spread.mean, spread.error, spread.skewness, spread.freedom) == pytest.approx(expected)


def test_the_instances_to_test_are_those_whose_mean_most_draws_carry():
    """An instance that no draw carries is left out unless its size is negligible."""
    ones, alike = np.ones(4), np.full(4, LEAST_CARRYING / 4)
    carrying = np.array([1e-9, 100.0, 100.0, 0.0])
    for size, carried, expected in (
        (ones, alike, [True] * 4),
        (ones, 0.99 * alike, [False] * 4),
        (ones, carrying, [False, True, True, False]),
        (np.array([1e-20, 1, 1, 1]), carrying, [True, True, True, False]),
        (1e-150 * ones, 4 * alike, [True] * 4),
        (np.zeros(0), np.zeros(0), []),
        (ones, np.full(4, np.inf), [True] * 4),
    ):
        assert instances_to_test(size, carried).tolist() == expected


def test_an_untested_instance_enters_no_test(drawn):
    """Groups without any weight agree that the estimate is 0, and have no error."""
    units = drawn(1, scale=[1.0] * 15 + [0.0])
    assert judged(units).verdict == "biased"
    carrying = np.where(np.arange(16) < 15, 100.0, 1e-6)
    assert judged(replace(units, carrying=carrying)).verdict == "no bias seen"
    assert judged(replace(units, carrying=carrying / 1e3)).reason == TOO_FEW_DRAWS


def test_no_p_value_is_zero_and_no_bias_below_rounding_is_detectable(drawn):
    assert judged(drawn(1, scale=0.5, noise=1e-3)).p_value == LEAST_P
    units = drawn(1)
    along = replace(units.deviations.along, variance=np.full(16, 1e-27))
    exact = judged(replace(units, deviations=replace(units.deviations, along=along)))
    assert math.isnan(exact.detectable)
    assert exact.reason.startswith("below the rounding")


@pytest.mark.parametrize(
    ("blocks", "verdict", "reason"),
    [
        (2, "undefined", "fewer than three groups an instance: no test"),
        (3, "no bias seen", f"fewer than {LEAST_SAMPLE} groups an instance"),
        (LEAST_SAMPLE - 2, "no bias seen", f"fewer than {LEAST_SAMPLE} groups an instance"),
        (LEAST_SAMPLE, "no bias seen", ""),
    ],
)
def test_with_few_groups_no_bias_is_detectable_and_with_two_there_is_no_verdict(
    drawn, blocks, verdict, reason
):
    result = judged(drawn(0, blocks=blocks))
    assert (result.verdict, result.reason.startswith(reason)) == (verdict, True)
    assert math.isnan(result.detectable) == bool(reason)
    assert math.isnan(result.at_most) == (verdict == "undefined")


def test_without_a_gradient_or_deviations_there_is_no_verdict(drawn):
    units = drawn(0)
    noise = np.random.default_rng(0).normal(0, 10.0, units.within.shape)
    for change, verdict, reason in (
        ({"truth": np.full(16, np.nan)}, "undefined", "no gradient to judge against"),
        ({"deviations": None}, "undefined", "fewer than three groups an instance"),
        ({"within": noise - noise.mean(2, keepdims=True)}, "undefined", "significantly above zero"),
        ({"mean_square": units.truth, "inner": units.truth}, "reference", "this estimator"),
    ):
        result = judged(replace(units, **change))
        assert (result.verdict, reason in result.reason) == (verdict, True), result


def test_enumerated_cells_are_judged_by_the_worst_instance_and_their_tolerance():
    """An instance without a gradient is judged by the size of its estimates."""
    cell, flat = partial(enumerated, truth=(1.0, 4.0)), partial(enumerated, truth=(1.0, 0.0))
    tiny, one = [1e-20, 4e-20], [1e-20, 1e-10]
    by_instance = np.array([0.5, 1.0])
    for units, expected, bias, tolerance in (
        (cell(tiny, tiny), "unbiased", 1e-10, 1e-9),
        (cell(one, one), "biased", 4.47e-6, 1e-9),
        (cell(one, one, tolerance=1e-4), "unbiased", 4.47e-6, 1e-4),
        (cell([0.25, 1.0], [0.0, 0.0], scale=0.5), "scale bias", 0.5, 1e-9),
        (cell([0.25, 1.0], [0.0, 0.1], scale=0.5), "biased", 0.5, 1e-9),
        (cell([0.25, 0.0], [0.0, 0.0], scale=by_instance), "biased", 0.05**0.5, 1e-9),
        # Each seed has its own factor.
        (
            Units.pool([cell([s**2, 4 * s**2], [0, 0], scale=1 - s) for s in (0.1, 0.5)]),
            "scale bias",
            0.13**0.5,
            1e-9,
        ),
        (flat([1e-20, 1e-30]), "unbiased", 1e-10, 1e-9),
        (flat(one), "biased", 1e-5, 1e-9),
    ):
        verdict = judged(units)
        assert (verdict.verdict, verdict.detectable) == (expected, tolerance)
        assert verdict.relative_bias == pytest.approx(bias, rel=1e-2)
        assert verdict.at_most == max(tolerance, verdict.relative_bias)
    nothing = enumerated([0.0, 0.0], truth=(0.0, 0.0))
    assert "zero on every instance" in judged(nothing).reason


def test_enumerated_cells_take_no_part_in_the_correction(drawn):
    sampled = {i: drawn(i) for i in range(3)}
    proven = {f"proven {i}": enumerated([0.0, 0.0]) for i in range(50)}
    alone, together = bias_verdicts(sampled), bias_verdicts(sampled | proven)
    # As text: a verdict may have NaN, which equals nothing.
    assert {key: repr(together[key]) for key in sampled} == {k: repr(v) for k, v in alone.items()}
