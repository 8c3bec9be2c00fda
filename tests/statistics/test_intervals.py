"""Intervals and verdicts on bandits of known variance: coverage, family-wise error, power."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from maxk_lab.statistics.bias import bias_verdicts, holm
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import measures_of
from maxk_lab.statistics.units import Units


def units(m2, mean_square=None, inner=None, truth=None, stratum=None):
    m2 = np.asarray(m2, dtype=float)
    zero = np.ones_like(m2)
    return Units(
        np.zeros(len(m2), dtype=np.int64) if stratum is None else np.asarray(stratum),
        m2,
        zero if mean_square is None else np.asarray(mean_square, dtype=float),
        zero if inner is None else np.asarray(inner, dtype=float),
        zero if truth is None else np.asarray(truth, dtype=float),
    )


def noisy(seed, count=24, scale=1.0, noise=0.2, off=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.5, 1.5, count)
    inner = scale * truth + noise * rng.standard_normal(count)
    mean_square = (scale**2 + off) * truth + 2 * noise * rng.standard_normal(count)
    return units(mean_square + 10, mean_square, inner, truth)


def enumerated(squared_bias, off_direction, scale=1.0, tolerance=1e-9, truth=(1.0, 4.0)):
    truth = np.asarray(truth)
    found = units(truth + 3, scale**2 * truth + np.asarray(off_direction), scale * truth, truth)
    return replace(
        found,
        squared_bias=np.asarray(squared_bias, dtype=float),
        off_direction=np.asarray(off_direction, dtype=float),
        tolerance=tolerance,
    )


def test_points_follow_the_formulas():
    u = units([3.0, 5.0] * 6, [1.0, 2.0] * 6, [0.5, 1.5] * 6, [2.0, 2.5] * 6)
    expected = {
        "variance": 2.5,
        "relative_variance": 2.5 / 1.5,
        "snr": 0.6,
        "squared_bias": 1.75,
        "scale": 1 / 2.25,
    }
    expected["cosine"] = 1 / np.sqrt(1.5 * 2.25)
    assert {name: interval(u, name).value for name in expected} == pytest.approx(expected)
    others = [row.name for row in measures_of("gradient") if row.of_units]
    assert {interval(u, name).reason for name in others} == {"not measured"}
    assert all(
        interval(u, name).low < value < interval(u, name).high for name, value in expected.items()
    )


def test_strata_weigh_the_same_and_are_resampled_apart():
    u = units([1.0, 1.0, 1.0, 9.0, 9.0], np.zeros(5), stratum=[0, 0, 0, 1, 1])
    found = interval(u, "variance")
    assert (found.value, found.low, found.high) == (5.0, 5.0, 5.0)


def test_undefined_measures_say_why():
    nothing = units(
        np.linspace(5, 6, 12),
        np.linspace(-1, 1, 12) - 0.01,
        np.linspace(-1, 1, 12),
        np.linspace(-1, 1, 12),
    )
    for name in ("relative_variance", "scale", "cosine"):
        found = interval(nothing, name)
        assert np.isnan(found.value)
        assert "zero" in found.reason
    blind = units([1.0, 2.0], [0.5, 0.5], [np.nan] * 2, [np.nan] * 2)
    assert interval(blind, "scale").reason == "no gradient to judge against"
    assert interval(blind, "variance").value == 1.0
    unmeasured = interval(units([1.0, 2.0], [np.nan, 1.0]), "variance")
    assert np.isnan(unmeasured.value)
    assert "not measured" in unmeasured.reason
    single = interval(units([1.0], [0.5]), "variance")
    assert np.isnan(single.low)
    assert "one resampling unit" in single.reason
    ends = interval(units([1.0], [0.5]), "relative_variance")
    assert (ends.value, np.isnan([ends.low, ends.high]).all()) == (1.0, True)


def test_log_ratio_is_paired_and_antisymmetric():
    a, b = noisy(0), noisy(0)
    b = units(b.m2 * 2 - b.mean_square, b.mean_square, b.inner, b.truth)
    forward, backward = log_ratio(b, a), log_ratio(a, b)
    assert forward.value == pytest.approx(np.log(2), rel=1e-9)
    assert forward.width < 1e-6
    assert forward.value == pytest.approx(-backward.value)


def test_the_ratio_of_cells_with_different_units_is_undefined_and_says_why():
    found = log_ratio(noisy(0), units([1.0, 2.0]))
    assert np.isnan([found.value, found.low, found.high]).all()
    assert "different resampling units" in found.reason


def test_the_interval_is_reproducible():
    assert interval(noisy(1), "snr") == interval(noisy(1), "snr")


@pytest.mark.slow
def test_the_variance_interval_covers_the_exact_value():
    """Population: squared norms of a gamma spread over instances, 16 a sample; exact mean known."""
    rng = np.random.default_rng(0)
    hits, trials = 0, 500
    for _ in range(trials):
        m2 = rng.gamma(4.0, 0.25, 16)
        found = interval(units(m2, np.zeros(16)), "variance")
        hits += found.low <= 1.0 <= found.high
    # Binomial(500, 0.95): 99.9 % of the time between 0.918 and 0.98.
    assert 0.918 <= hits / trials <= 0.98


def test_holm_agrees_with_the_textbook():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )


@pytest.mark.slow
def test_unbiased_families_are_rejected_at_most_at_the_stated_rate():
    rejected = sum(
        any(
            v.verdict != "no bias seen"
            for v in bias_verdicts({i: noisy(100 * trial + i) for i in range(10)}).values()
        )
        for trial in range(200)
    )
    # 0.05 · 200 = 10 expected; 22 is the 99.9 % point of Binomial(200, 0.05).
    assert rejected <= stats.binom.ppf(0.999, 200, 0.05)


def test_scale_bias_and_direction_bias_are_told_apart():
    verdicts = bias_verdicts(
        {"fine": noisy(1), "scale": noisy(2, scale=0.5), "direction": noisy(3, off=3.0)}
    )
    assert [verdicts[key].verdict for key in ("fine", "scale", "direction")] == [
        "no bias seen",
        "scale bias",
        "biased",
    ]
    assert verdicts["scale"].relative_bias == pytest.approx(0.5, abs=0.25)


def test_a_bias_as_large_as_the_detectable_one_is_found_about_four_times_in_five():
    stated = bias_verdicts({0: noisy(0)})[0].detectable_scale
    found = sum(
        bias_verdicts({0: noisy(s, scale=1 + stated)})[0].verdict != "no bias seen"
        for s in range(1, 301)
    )
    assert 0.65 <= found / 300 <= 0.95


def test_a_common_shrinkage_is_seen_among_instances_of_very_different_gradient_norm():
    rng = np.random.default_rng(0)
    truth = rng.lognormal(0, 1.5, 16)
    inner = 0.75 * truth * (1 + 0.02 * rng.standard_normal(16))
    mean_square = 0.75**2 * truth * (1 + 0.02 * rng.standard_normal(16))
    family = {i: noisy(i) for i in range(90)} | {
        "shrunk": units(mean_square + 5, mean_square, inner, truth)
    }
    assert bias_verdicts(family)["shrunk"].verdict == "scale bias"


def test_the_reference_and_the_untestable_are_named():
    same = noisy(0)
    reference = units(same.m2, same.truth, same.truth, same.truth)
    one = units([1.0])
    verdicts = bias_verdicts({"reference": reference, "one": one})
    assert verdicts["reference"].verdict == "reference"
    assert verdicts["one"].verdict == "undefined"
    assert "one resampling unit" in verdicts["one"].reason


def test_enumerated_cells_are_judged_by_the_worst_instance_and_their_tolerance():
    rounding = enumerated([1e-20, 4e-20], [1e-20, 4e-20])
    verdicts = bias_verdicts(
        {
            "rounding": rounding,
            "one instance": enumerated([1e-20, 1e-10], [1e-20, 1e-10]),
            "single precision": enumerated([1e-20, 1e-10], [1e-20, 1e-10], tolerance=1e-4),
            "scale": enumerated([0.25, 1.0], [0.0, 0.0], scale=0.5),
            "direction": enumerated([0.25, 1.0], [0.0, 0.1], scale=0.5),
            "a scale for each": enumerated([0.25, 0.0], [0.0, 0.0], scale=np.array([0.5, 1.0])),
        }
    )
    expected = ["unbiased", "biased", "unbiased", "scale bias", "biased", "biased"]
    assert [verdict.verdict for verdict in verdicts.values()] == expected
    assert verdicts["scale"].relative_bias == pytest.approx(0.5)
    assert verdicts["scale"].detectable == verdicts["scale"].detectable_scale == 1e-9


def test_an_instance_without_a_gradient_is_judged_by_the_size_of_its_estimates():
    flat = enumerated([1e-20, 1e-30], [1e-20, 1e-30], truth=(1.0, 0.0))
    assert bias_verdicts({0: flat})[0].verdict == "unbiased"
    moved = enumerated([1e-20, 1e-10], [1e-20, 1e-10], truth=(1.0, 0.0))
    assert bias_verdicts({0: moved})[0].verdict == "biased"
    nothing = enumerated([0.0, 0.0], [0.0, 0.0], truth=(0.0, 0.0))
    assert "zero on every instance" in bias_verdicts({0: nothing})[0].reason


def test_enumerated_cells_take_no_part_in_the_correction():
    alone = {i: noisy(i) for i in range(3)}
    with_proven = alone | {f"proven {i}": enumerated([0.0, 0.0], [0.0, 0.0]) for i in range(50)}
    found = bias_verdicts(with_proven)
    assert {key: found[key] for key in alone} == bias_verdicts(alone)


def test_pooled_units_are_enumerated_only_if_all_parts_are():
    part = enumerated([1.0, 2.0], [0.5, 0.5])
    both = Units.pool([part, replace(part, tolerance=1e-4)])
    assert both.squared_bias.tolist() == [1.0, 2.0, 1.0, 2.0]
    assert both.off_direction.tolist() == [0.5] * 4
    assert both.tolerance == 1e-4
    mixed = Units.pool([part, units([1.0, 2.0])])
    assert (mixed.squared_bias, mixed.off_direction, mixed.tolerance) == (None, None, None)


def test_an_enumerated_squared_bias_is_not_a_difference_of_large_numbers():
    squared = [1e-30, 3e-30] * 8
    found = interval(enumerated(squared, squared, truth=[1e6, 4e6] * 8), "squared_bias")
    assert found.value == pytest.approx(2e-30, rel=1e-12, abs=0)
    assert 1e-30 < found.low < found.value < found.high < 3e-30


def with_measure(values, stratum=None, name="kl"):
    found = units(np.ones(len(values)), stratum=stratum)
    return replace(found, measures={name: np.asarray(values, dtype=float)})


def test_a_measure_of_units_has_the_interval_of_its_mean_over_units_that_have_it():
    rng = np.random.default_rng(0)
    values = rng.gamma(4.0, 0.25, 16)
    full = interval(with_measure(values), "kl")
    assert full.value == pytest.approx(values.mean())
    assert full.low < full.value < full.high
    same = interval(replace(units(values, np.zeros(16)), measures={}), "variance")
    assert (full.low, full.high) == pytest.approx((same.low, same.high), rel=1e-12)
    assert interval(with_measure([*values, np.nan]), "kl") == full
    one_stratum_without = interval(with_measure([1.0, 2.0, np.nan, np.nan], [0, 0, 1, 1]), "kl")
    assert np.isnan(one_stratum_without.value)
    assert "undefined on every resampling unit" in one_stratum_without.reason


def test_the_ratio_of_a_measure_is_paired():
    values = np.random.default_rng(0).gamma(4.0, 0.25, 16)
    found = log_ratio(with_measure(3 * values), with_measure(values), measure="kl")
    assert found.value == pytest.approx(np.log(3))
    assert found.width < 1e-9
    assert (
        "not positive"
        in log_ratio(with_measure(-values), with_measure(values), measure="kl").reason
    )
    assert (
        log_ratio(with_measure(values), noisy(0, count=16), measure="kl").reason == "not measured"
    )


def test_the_ratio_of_enumerated_squared_biases_is_not_lost_to_rounding():
    """Both are far below the rounding of the moments, whose difference a sampled one is."""
    found = log_ratio(
        enumerated([3e-20, 1e-20], [3e-20, 1e-20]),
        enumerated([3e-18, 1e-18], [3e-18, 1e-18]),
        measure="squared_bias",
    )
    assert found.value == pytest.approx(np.log(0.01))
    assert found.width < 1e-9


def test_pooled_units_have_the_measures_that_all_parts_have():
    both = Units.pool([with_measure([1.0, 2.0]), with_measure([3.0])])
    assert both.measures["kl"].tolist() == [1.0, 2.0, 3.0]
    assert Units.pool([with_measure([1.0]), with_measure([1.0], name="ratio_std")]).measures == {}
