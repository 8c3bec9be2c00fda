"""Paired comparisons of two cells: by instance, by block where these stay, and by the median."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_units import enumerated, with_measure
from scipy import stats

from maxk_lab.statistics.intervals import LEAST_SAMPLE
from maxk_lab.statistics.log_ratios import (
    RARE_ALONE,
    TAIL,
    log_ratio,
    median_interval,
    stays_less,
    typical_ratio,
    typical_relative_variance,
)
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.statistics.units import Units

FEW, MEASURE = (1.0, 2.0, 3.0), "value_variance"


def noisier(units, factor):
    """The same units with so many times the variance, in every block."""
    within = units.within.copy()
    within[0] = factor * units.within[0] + (1 - factor) * units.within[1]
    m2 = factor * (units.m2 - units.mean_square) + units.mean_square
    return replace(units, m2=m2, within=within)


def units(m2, mean_square=1.0, truth=None, seeds=1, **more):
    """Units with these moments, in so many seeds of equal size."""
    m2 = np.asarray(m2, dtype=float)
    square = np.broadcast_to(np.asarray(mean_square, dtype=float), m2.shape)
    truth = square if truth is None else np.broadcast_to(np.asarray(truth, dtype=float), m2.shape)
    stratum = np.repeat(np.arange(seeds), len(m2) // seeds)
    return Units(stratum, m2, square, square, truth, **more)


@pytest.mark.parametrize("norms", [FEW, (1.0,) * 20])
def test_it_is_paired(drawn, norms):
    a = drawn(0, norms)
    found = log_ratio(noisier(a, 2.0), a)
    assert found.value == pytest.approx(np.log(2), rel=1e-9)
    assert found.width < 1e-6
    assert found.question == (FIXED if norms == FEW else NEW)


def test_its_ends_turn_round_with_its_sides(drawn):
    a, b = drawn(0, (1.0,) * 20), drawn(1, (1.0,) * 20, noise=0.3)
    for measure in ("variance", "snr", "relative_variance", "scale"):
        forward, backward = log_ratio(a, b, measure=measure), log_ratio(b, a, measure=measure)
        ends = (-backward.high, -backward.low)
        assert (forward.low, forward.high) == pytest.approx(ends, rel=1e-5, abs=1e-9)
        assert forward.value == pytest.approx(-backward.value)
        assert forward.low < forward.value < forward.high


def test_of_few_instances_it_is_about_these_by_their_blocks(drawn):
    found = log_ratio(drawn(0, FEW), drawn(1, FEW))
    assert found.fallen_back
    assert found.reason == "3 instances are too few to speak of others"
    assert found.low < found.value < found.high
    asked = log_ratio(drawn(0, FEW), drawn(1, FEW), question=FIXED)
    assert (asked.low, asked.high, asked.reason) == (found.low, found.high, "")
    # So it is where few carry one of both.
    norms = (30.0, *[1.0] * (LEAST_SAMPLE - 1))
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


def test_one_mean_says_nothing_of_other_measures_and_has_a_ratio_where_the_signal_is_lost(drawn):
    a, b = drawn(0), drawn(1)
    assert log_ratio(a, b, measure="scale", same_mean=True) == log_ratio(a, b, measure="scale")
    assert log_ratio(a, b, same_mean=True) == log_ratio(a, b)
    lost = [replace(drawn(seed), mean_square=np.linspace(-1.2, 1.0, 16)) for seed in (0, 1)]
    assert np.isnan(log_ratio(*lost, measure="snr").value)
    assert log_ratio(*lost, measure="snr", same_mean=True).defined


def test_where_there_are_no_pairs_the_ratio_is_undefined_and_says_why(drawn):
    """Two groups an instance tell no error of ‖E ĝ‖², and so none of the variance."""
    values = np.random.default_rng(0).gamma(4.0, 0.25, 16)
    for a, b, measure, reason in (
        (drawn(0), drawn(0, FEW), "variance", "the two rest on different instances"),
        (drawn(0, FEW), enumerated([1.0] * 3), "variance", "one was enumerated and one sampled"),
        (drawn(0, FEW, blocks=2), drawn(1, FEW, blocks=2), "variance", "too few groups an"),
        (
            with_measure(-values),
            with_measure(values),
            MEASURE,
            "of one side is not positive",
        ),
        (with_measure(values), drawn(0), MEASURE, "not measured"),
        (
            with_measure(3 * values[:3]),
            with_measure(values[:3]),
            MEASURE,
            "3 instances are too few",
        ),
        (
            with_measure([np.nan] * 3),
            with_measure(values[:3]),
            MEASURE,
            "undefined on every instance",
        ),
    ):
        found = log_ratio(a, b, measure=measure)
        assert (found.defined, reason in found.reason) == (False, True), found


def test_blocks_that_were_cut_differently_make_no_pairs(drawn):
    found = log_ratio(drawn(0, FEW, blocks=8), drawn(1, FEW, blocks=6))
    assert not found.defined
    assert found.reason.endswith("their groups are in different blocks: no pairs of these")
    like = log_ratio(drawn(0, blocks=8), drawn(1, blocks=6))
    assert (like.defined, like.question) == (True, NEW)


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
    for question in (FIXED, NEW):
        found = log_ratio(*blind, question=question)
        assert found == log_ratio(drawn(0), drawn(1), question=question)


def test_the_ratio_of_numbers_of_each_instance_is_paired_and_not_lost_to_rounding():
    """Enumerated biases are far below the rounding of the moments, of which sampled ones are."""
    values = np.random.default_rng(0).gamma(4.0, 0.25, 16)
    biases = [enumerated([3 * size, size]) for size in (1e-20, 1e-18)]
    for a, b, measure, factor in (
        (with_measure(3 * values), with_measure(values), MEASURE, 3),
        (*biases, "squared_bias", 0.01),
    ):
        found = log_ratio(a, b, measure=measure)
        assert found.value == pytest.approx(np.log(factor))
        assert found.width < 1e-9
    assert found.question == FIXED


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("less", [0.3, 0.6, 0.62, 0.64, 0.66, 0.7, 1.5])
def test_less_variance_stays_so_where_the_mean_of_log_normal_ratios_is_below_1(less, seeds):
    """Cox's interval, written out, of ratios whose middle differs between two seeds."""
    rng = np.random.default_rng(0)
    base, seed = rng.gamma(10.0, 0.1, 20), np.arange(20) * seeds // 20
    logs = np.log(less) + 0.3 * rng.normal(size=20) + 0.5 * seed
    parts = [logs[seed == s] for s in range(seeds)]
    variance = sum(((part - part.mean()) ** 2).sum() for part in parts) / (20 - seeds)
    error = np.sqrt(variance / 20 + variance**2 / (2 * (20 - seeds)))
    middle = np.mean([part.mean() for part in parts]) + variance / 2
    a, b = (units(1 + of, seeds=seeds) for of in (base * np.exp(logs), base))
    assert stays_less(a, b) == (middle + stats.t.isf(1 - TAIL, 20 - seeds) * error < 0)


def test_less_variance_of_what_is_not_known_is_not_known_to_stay_so():
    assert not stays_less(units([np.nan, *[0.1] * 9]), units(np.full(10, 5.0)))
    # Without two ratios of a seed nothing tells how they spread.
    assert stays_less(units([1.5, 0.5]), units([2.0, 2.0]))


def test_with_too_few_values_it_says_how_many_would_do():
    for level in (0.75, 0.9, 0.95, 0.999):
        found = median_interval(np.ones(2), level)
        needed = int(found.reason.split(": ")[1].split()[0])
        assert found.reason == f"a median of 2 has no such interval: {needed} are needed"
        assert median_interval(np.arange(float(needed)), level).defined
        assert not median_interval(np.arange(needed - 1.0), level).defined
    found = median_interval(np.array([np.nan, *range(20)]), 0.95)
    assert (found.defined, found.reason) == (False, "not defined on every instance")


def test_the_relative_variance_of_the_typical_instance():
    variances = np.arange(1.0, 12.0)
    measured = units(variances + 2.0, 2.0, truth=4.0)
    assert typical_relative_variance(measured, unbiased=False, level=0.95).value == 3.0
    assert typical_relative_variance(measured, unbiased=True, level=0.95).value == 1.5
    blind = replace(measured, truth=np.full(11, np.nan))
    assert typical_relative_variance(blind, unbiased=True, level=0.95).value == 3.0
    # An instance without a signal is as bad as can be, and moves the others by one place only.
    lost = replace(measured, mean_square=np.array([-1.0, *[2.0] * 10]))
    found = typical_relative_variance(lost, unbiased=False, level=0.95)
    assert (found.value, found.low, found.high) == (3.5, 1.5, 5.5)
    assert median_interval(np.array([np.inf] * 6 + [1.0] * 5), 0.95).high == np.inf


def test_a_ratio_is_paired_by_instance():
    rng = np.random.default_rng(0)
    size, ratio = rng.lognormal(0, 6, 17), rng.permutation(np.linspace(0.2, 1.4, 17))
    found = typical_ratio(units(size * ratio + 1, 1.0), units(size + 1, 1.0), level=0.95)
    assert found.median.value == pytest.approx(0.8, rel=1e-6)
    assert (found.median.low, found.median.high) == pytest.approx((0.5, 1.1), rel=1e-6)
    told = [value for value in ratio if abs(value - 1) > 1e-6]
    assert (found.below, found.instances) == (sum(value < 1 for value in told), 17)
    wanted = stats.binomtest(found.below, len(told)).pvalue
    assert found.p_value == pytest.approx(wanted)


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_median_that_rare_groups_of_each_instance_decide_is_withheld(side):
    """What they add may move it to its end; what they add to both sides does not count."""
    sizes = np.linspace(1.0, 2.0, 16)
    a, b = units(1 + sizes), units(np.full(16, 2.0))
    median = typical_ratio(a, b, level=0.95).median
    moves = {"a": median.high / median.value, "b": median.value / median.low}
    for share, defined in ((0.999, True), (1.01, False)):
        added = {"a": a.m2 - 1, "b": b.m2 - 1}[side] * (moves[side] * share - 1)
        of_a, of_b = (
            replace(of, rare_alone=added if name == side else np.zeros(16))
            for name, of in (("a", a), ("b", b))
        )
        ratio = typical_ratio(of_a, of_b, level=0.95)
        found = ratio.median
        # Above its interval the median may lie only with the rare groups of a.
        beyond = share if side == "a" and not defined else 1.0
        assert ratio.most == pytest.approx(median.high * beyond)
        assert (found.defined, found.reason) == (defined, "" if defined else RARE_ALONE)
        if side == "a":
            own = typical_relative_variance(of_a, unbiased=True, level=0.95)
            assert (own.defined, own.reason) == (found.defined, found.reason)
    both = [replace(of, rare_alone=9 * (of.m2 - 1)) for of in (a, b)]
    assert typical_ratio(*both, level=0.95).median == median


@pytest.mark.parametrize(("carrying", "defined"), [(2.9, False), (3.1, True)])
def test_a_median_is_withheld_where_most_pools_hold_too_few_groups_that_carry_it(carrying, defined):
    number = np.array([0.0] * 7 + [carrying] * 2 + [99.0] * 7)
    few = replace(units(np.linspace(2.0, 3.0, 16)), carrying=number, rare_alone=np.zeros(16))
    often = replace(few, carrying=np.full(16, 99.0), m2=np.full(16, 2.0))
    for found in (
        typical_ratio(few, often, level=0.95).median,
        typical_ratio(often, few, level=0.95).median,
        typical_relative_variance(few, unbiased=True, level=0.95),
    ):
        assert (found.defined, found.reason) == (defined, "" if defined else RARE_ALONE)
    # Earlier records do not say what rare groups add.
    earlier = [replace(of, rare_alone=None) for of in (few, often)]
    assert typical_ratio(*earlier, level=0.95).median.defined


def test_ties_are_told_apart_from_wins():
    one = units([3.0, 4.0, 5.0, 6.0], 1.0)
    same = typical_ratio(one, one, level=0.5)
    assert (same.below, same.ties, same.p_value) == (0, 4, 1.0)
    found = typical_ratio(units([3.0, 4.0 + 1e-12, 4.0, 4.0], 1.0), one, level=0.5)
    assert (found.below, found.ties, found.instances) == (2, 2, 4)
    assert found.p_value == 0.5

    # A variance over none is infinite, and none over none a tie.
    found = typical_ratio(units([2.0, 1.0, 1.5], 1.0), units([1.0, 1.0, 1.0], 1.0), level=0.5)
    assert (found.median.value, found.below, found.ties) == (np.inf, 0, 1)
    with pytest.raises(ValueError, match="different instances"):
        typical_ratio(units([2.0], 1.0), units([2.0, 3.0], 1.0), level=0.95)
