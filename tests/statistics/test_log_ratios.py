"""Paired comparisons of two cells: by instance, and by block where these instances stay."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from maxk_lab.statistics.errors import LIKE_THESE, THESE
from maxk_lab.statistics.intervals import LEAST_INSTANCES
from maxk_lab.statistics.log_ratios import MISSING, log_ratio, stays_less
from maxk_lab.statistics.units import Units

FEW = (1.0, 2.0, 3.0)


def noisier(units, factor):
    """The same units with so many times the variance, in every block."""
    within = units.within.copy()
    within[0] = factor * units.within[0] + (1 - factor) * units.within[1]
    m2 = factor * (units.m2 - units.mean_square) + units.mean_square
    return replace(units, m2=m2, within=within)


def enumerated(squared_bias):
    squared = np.asarray(squared_bias, dtype=float)
    ones = np.ones_like(squared)
    return Units(
        np.zeros(len(squared), dtype=np.int64),
        5 * ones,
        ones,
        ones,
        ones,
        squared_bias=squared,
        off_direction=squared,
        tolerance=1e-9,
    )


@pytest.mark.parametrize("norms", [FEW, (1.0,) * 20])
def test_it_is_paired_and_antisymmetric(drawn, norms):
    a = drawn(0, norms)
    b = noisier(a, 2.0)
    forward, backward = log_ratio(b, a), log_ratio(a, b)
    assert forward.value == pytest.approx(np.log(2), rel=1e-9)
    assert forward.width < 1e-6
    assert forward.value == pytest.approx(-backward.value)
    assert forward.question == (THESE if norms == FEW else LIKE_THESE)


def test_its_ends_turn_round_with_its_sides(drawn):
    a, b = drawn(0, (1.0,) * 20), drawn(1, (1.0,) * 20, noise=0.3)
    for measure in ("variance", "snr", "relative_variance", "scale"):
        forward, backward = log_ratio(a, b, measure=measure), log_ratio(b, a, measure=measure)
        ends = (-backward.high, -backward.low)
        assert (forward.low, forward.high) == pytest.approx(ends, rel=1e-5, abs=1e-9)
        assert forward.low < forward.value < forward.high


def test_of_few_instances_it_is_about_these_by_their_blocks(drawn):
    found = log_ratio(drawn(0, FEW), drawn(1, FEW))
    assert found.fallen_back
    assert found.reason == "3 instances are too few to speak of others"
    assert found.low < found.value < found.high
    asked = log_ratio(drawn(0, FEW), drawn(1, FEW), question=THESE)
    assert (asked.low, asked.high, asked.reason) == (found.low, found.high, "")


def test_where_few_carry_one_of_both_it_is_about_these(drawn):
    norms = (30.0, *[1.0] * (LEAST_INSTANCES - 1))
    found = log_ratio(drawn(0, norms), drawn(1, norms))
    assert found.fallen_back
    assert "instances carry the mean" in found.reason


@pytest.mark.parametrize("measure", ["relative_variance", "snr"])
def test_estimates_of_one_mean_are_compared_by_their_variances(drawn, measure):
    a, b = drawn(0, (1.0,) * 20, noise=0.5), drawn(1, (1.0,) * 20, noise=0.1)
    of_variance = log_ratio(a, b)
    found = log_ratio(a, b, measure=measure, same_mean=True)
    sign = -1 if measure == "snr" else 1
    assert found.value == sign * of_variance.value
    assert {found.low, found.high} == {sign * of_variance.low, sign * of_variance.high}
    assert found.low < found.high
    # Without that, the chance errors of two norms come into it.
    own = log_ratio(a, b, measure=measure)
    by_hand = np.log(a.mean_square.mean() / b.mean_square.mean())
    assert sign * (found.value - own.value) == pytest.approx(by_hand, rel=1e-6)
    assert own.width > found.width


def test_one_mean_says_nothing_of_other_measures(drawn):
    a, b = drawn(0), drawn(1)
    assert log_ratio(a, b, measure="scale", same_mean=True) == log_ratio(a, b, measure="scale")
    assert log_ratio(a, b, same_mean=True) == log_ratio(a, b)


def test_one_mean_has_a_ratio_where_the_signal_is_lost(drawn):
    lost = [replace(drawn(seed), mean_square=np.linspace(-1.2, 1.0, 16)) for seed in (0, 1)]
    assert np.isnan(log_ratio(*lost, measure="snr").value)
    assert log_ratio(*lost, measure="snr", same_mean=True).known


def test_the_ratio_of_cells_with_different_instances_is_undefined_and_says_why(drawn):
    found = log_ratio(drawn(0), drawn(0, FEW))
    assert np.isnan([found.value, found.low, found.high]).all()
    assert "different instances" in found.reason
    found = log_ratio(drawn(0, FEW), enumerated([1.0, 1.0, 1.0]))
    assert found.reason == "one was enumerated and one sampled: no paired comparison"


def test_blocks_that_were_cut_differently_make_no_pairs(drawn):
    found = log_ratio(drawn(0, FEW, blocks=8), drawn(1, FEW, blocks=6))
    assert not found.known
    assert found.reason.endswith("their groups are in different blocks: no pairs of these")
    like = log_ratio(drawn(0, blocks=8), drawn(1, blocks=6))
    assert (like.known, like.question) == (True, LIKE_THESE)


def test_an_error_that_is_not_known_is_not_taken_for_none(drawn):
    """Two groups an instance tell no error of ‖E ĝ‖², and so none of the variance."""
    found = log_ratio(drawn(0, FEW, blocks=2), drawn(1, FEW, blocks=2))
    assert not found.known
    assert "too few groups an instance" in found.reason


def test_without_a_gradient_what_looks_at_it_has_no_ratio(drawn):
    nothing = np.full(16, np.nan)
    blind = [
        replace(
            drawn(seed),
            inner=nothing,
            truth=nothing,
            within=np.concatenate([drawn(seed).within[:2], np.full((2, 16, 8), np.nan)]),
        )
        for seed in (0, 1)
    ]
    assert log_ratio(*blind, measure="scale").reason == "no gradient to judge against"
    for question in (THESE, LIKE_THESE):
        found = log_ratio(*blind, question=question)
        assert found == log_ratio(drawn(0), drawn(1), question=question)


def with_measure(values):
    count = len(values)
    found = enumerated(np.ones(count))
    return replace(found, tolerance=None, measures={"kl": np.asarray(values, dtype=float)})


def test_the_ratio_of_a_measure_is_paired(drawn):
    values = np.random.default_rng(0).gamma(4.0, 0.25, 16)
    found = log_ratio(with_measure(3 * values), with_measure(values), measure="kl")
    assert found.value == pytest.approx(np.log(3))
    assert found.width < 1e-9
    assert (
        "not positive"
        in log_ratio(with_measure(-values), with_measure(values), measure="kl").reason
    )
    assert log_ratio(with_measure(values), drawn(0), measure="kl").reason == "not measured"
    few = log_ratio(with_measure(3 * values[:3]), with_measure(values[:3]), measure="kl")
    assert (few.known, few.reason) == (False, "3 instances are too few to speak of others")


def test_the_ratio_of_enumerated_squared_biases_is_not_lost_to_rounding():
    """Both are far below the rounding of the moments, whose difference a sampled one is."""
    found = log_ratio(
        enumerated([3e-20, 1e-20]), enumerated([3e-18, 1e-18]), measure="squared_bias"
    )
    assert found.value == pytest.approx(np.log(0.01))
    assert found.width < 1e-9
    assert found.question == THESE


def of_variances(variances, seeds=1):
    """Units with these variances, in so many seeds of equal size."""
    variances = np.asarray(variances, dtype=float)
    ones = np.ones_like(variances)
    stratum = np.repeat(np.arange(seeds), len(variances) // seeds)
    return Units(stratum, variances + 1, ones, ones, ones)


def test_less_variance_stays_so_where_no_one_instance_more_could_undo_it():
    rng = np.random.default_rng(0)
    base = rng.gamma(10.0, 0.1, 20)
    clear, shaky = 0.3 * base, base - rng.gamma(0.5, 0.5, 20)
    assert stays_less(of_variances(clear), of_variances(base))
    assert not stays_less(of_variances(base), of_variances(clear))
    assert log_ratio(of_variances(shaky), of_variances(base)).high < 0
    assert not stays_less(of_variances(shaky), of_variances(base))
    assert not stays_less(of_variances([np.nan, *clear[1:]]), of_variances(base))


@pytest.mark.parametrize("factor", [0.2, 0.5, 0.8, 0.95])
def test_the_instance_more_is_the_farthest_the_other_way(factor):
    """Written out, of one seed: Student's interval with that instance among them."""
    rng = np.random.default_rng(1)
    base = rng.gamma(4.0, 0.25, 20)
    less = base * factor * rng.uniform(0.8, 1.2, 20)
    differences = [*(less - base), MISSING * np.abs(less - base).max()]
    upper = stats.ttest_1samp(differences, 0.0, alternative="two-sided").confidence_interval()
    assert stays_less(of_variances(less), of_variances(base)) == (upper.high < 0)


def test_the_instance_more_is_of_the_seed_of_the_farthest():
    base = np.ones(24)
    less = base - np.concatenate([np.full(12, 0.5), np.linspace(0.2, 0.8, 12)])
    differences = less - base
    groups = [differences[:12], np.append(differences[12:], MISSING * 0.8)]
    error = np.sqrt(sum(g.var(ddof=1) / len(g) for g in groups)) / 2
    upper = np.mean([g.mean() for g in groups]) + stats.t.isf(0.025, 23) * error
    found = stays_less(of_variances(less, seeds=2), of_variances(base, seeds=2))
    assert found == (upper < 0)
