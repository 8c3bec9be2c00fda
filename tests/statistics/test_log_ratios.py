"""Paired comparisons of two cells: by instance, by block, and by the median."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_units import enumerated, with_measure
from scipy import stats

from maxk_lab.statistics.intervals import LEAST_SAMPLE
from maxk_lab.statistics.log_ratios import (
    RARE_ALONE,
    RARE_GROUPS,
    TAIL,
    log_ratio,
    median_interval,
    stays_less,
    typical_ratio,
    typical_relative_variance,
)
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.statistics.units import Units

FEW, MANY, MEASURE = (1.0, 2.0, 3.0), (1.0,) * 20, "value_variance"


def noisier(units, factor):
    """The same units with `factor` times the variance, in every block."""
    within = units.within.copy()
    within[0] = factor * units.within[0] + (1 - factor) * units.within[1]
    m2 = factor * (units.m2 - units.mean_square) + units.mean_square
    return replace(units, m2=m2, within=within)


def units(m2, mean_square=1.0, truth=None, seeds=1, **more):
    """Units with these moments, in `seeds` seeds of equal size."""
    m2 = np.asarray(m2, dtype=float)
    square = np.broadcast_to(np.asarray(mean_square, dtype=float), m2.shape)
    truth = square if truth is None else np.broadcast_to(float(truth), m2.shape)
    stratum = np.repeat(np.arange(seeds), len(m2) // seeds)
    return Units(stratum, m2, square, square, truth, **more)


@pytest.mark.parametrize(("norms", "question"), [(FEW, FIXED), (MANY, NEW)])
def test_it_is_paired(drawn, norms, question):
    a = drawn(0, norms)
    ratio = log_ratio(noisier(a, 2.0), a)
    assert (ratio.value, ratio.question) == (pytest.approx(np.log(2), rel=1e-9), question)
    assert ratio.width < 1e-6


@pytest.mark.parametrize("measure", ["variance", "snr", "relative_variance", "scale"])
def test_its_ends_turn_round_with_its_sides(drawn, measure):
    a, b = drawn(0, MANY), drawn(1, MANY, noise=0.3)
    forward, backward = log_ratio(a, b, measure=measure), log_ratio(b, a, measure=measure)
    ends = (-backward.high, -backward.low)
    assert (forward.low, forward.high) == pytest.approx(ends, rel=1e-5, abs=1e-9)
    assert forward.value == pytest.approx(-backward.value)
    assert forward.low < forward.value < forward.high


def test_a_ratio_that_few_instances_carry_is_about_them_by_their_blocks(drawn):
    few, fixed = (log_ratio(drawn(0, FEW), drawn(1, FEW), question=q) for q in (None, FIXED))
    assert (few.fallen_back, few.reason) == (True, "3 instances are too few to speak of others")
    assert few.low < few.value < few.high
    assert (fixed.low, fixed.high, fixed.reason) == (few.low, few.high, "")
    norms = (30.0, *[1.0] * (LEAST_SAMPLE - 1))
    one = log_ratio(drawn(0, norms), drawn(1, norms))
    assert (one.fallen_back, "instances carry the mean" in one.reason) == (True, True)


@pytest.mark.parametrize(("measure", "sign"), [("relative_variance", 1), ("snr", -1)])
def test_estimates_of_one_mean_are_compared_by_their_variances(drawn, measure, sign):
    a, b = drawn(0, MANY, noise=0.5), drawn(1, MANY, noise=0.1)
    variance, ratio = log_ratio(a, b), log_ratio(a, b, measure=measure, same_mean=True)
    assert ratio.value == sign * variance.value
    assert [ratio.low, ratio.high] == sorted((sign * variance.low, sign * variance.high))
    # Otherwise, the chance errors of two norms are added.
    two_norms = log_ratio(a, b, measure=measure)
    by_hand = np.log(a.mean_square.mean() / b.mean_square.mean())
    assert sign * (ratio.value - two_norms.value) == pytest.approx(by_hand, rel=1e-6)
    assert two_norms.width > ratio.width
    for name in ("scale", "variance"):
        assert log_ratio(a, b, measure=name, same_mean=True) == log_ratio(a, b, measure=name)
    lost = [replace(drawn(seed), mean_square=np.linspace(-1.2, 1.0, 16)) for seed in (0, 1)]
    assert np.isnan(log_ratio(*lost, measure=measure).value)
    assert log_ratio(*lost, measure=measure, same_mean=True).defined


def test_without_pairs_the_ratio_is_undefined_and_has_a_reason(drawn):
    """Two groups an instance give no error of ‖E ĝ‖², so none of the variance."""
    values = np.random.default_rng(0).gamma(4.0, 0.25, 16)
    undefined = with_measure([np.nan] * 3)
    for a, b, measure, reason in (
        (drawn(0), drawn(0, FEW), "variance", "the two rest on different instances"),
        (drawn(0, FEW), enumerated([1.0] * 3), "variance", "one was enumerated and one sampled"),
        (drawn(0, FEW, blocks=2), drawn(1, FEW, blocks=2), "variance", "too few groups an"),
        (drawn(0, FEW, blocks=8), drawn(1, FEW, blocks=6), "variance", "are in different blocks"),
        (with_measure(-values), with_measure(values), MEASURE, "of one side is not positive"),
        (with_measure(values), drawn(0), MEASURE, "not measured"),
        (
            with_measure(3 * values[:3]),
            with_measure(values[:3]),
            MEASURE,
            "3 instances are too few",
        ),
        (undefined, with_measure(values[:3]), MEASURE, "undefined on every instance"),
    ):
        ratio = log_ratio(a, b, measure=measure)
        assert (ratio.defined, reason in ratio.reason) == (False, True), ratio
    unequal = log_ratio(drawn(0, blocks=8), drawn(1, blocks=6))
    assert (unequal.defined, unequal.question) == (True, NEW)


def test_without_a_gradient_only_measures_against_it_have_no_ratio(drawn):
    nothing, seeds = np.full(16, np.nan), (drawn(0), drawn(1))
    within = [np.concatenate([cell.within[:2], np.full((2, 16, 8), np.nan)]) for cell in seeds]
    blind = [
        replace(cell, inner=nothing, truth=nothing, within=blocks)
        for cell, blocks in zip(seeds, within, strict=True)
    ]
    assert log_ratio(*blind, measure="scale").reason == "no gradient to judge against"
    for question in (FIXED, NEW):
        assert log_ratio(*blind, question=question) == log_ratio(*seeds, question=question)


def test_the_ratio_of_numbers_of_each_instance_is_paired_and_not_lost_to_rounding():
    """Enumerated biases are far below the rounding of the moments."""
    values = np.random.default_rng(0).gamma(4.0, 0.25, 16)
    biases = [enumerated([3 * size, size]) for size in (1e-20, 1e-18)]
    for a, b, measure, factor, question in (
        (with_measure(3 * values), with_measure(values), MEASURE, 3, NEW),
        (*biases, "squared_bias", 0.01, FIXED),
    ):
        ratio = log_ratio(a, b, measure=measure)
        assert (ratio.value, ratio.question) == (pytest.approx(np.log(factor)), question)
        assert ratio.width < 1e-9


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("less", [0.3, 0.6, 0.62, 0.64, 0.66, 1.5])
def test_less_variance_stays_so_if_the_mean_of_log_normal_ratios_is_below_1(less, seeds):
    """Cox's interval, written out, of ratios whose middle differs between two seeds."""
    rng = np.random.default_rng(0)
    base, seed = rng.gamma(10.0, 0.1, 20), np.arange(20) * seeds // 20
    logs = np.log(less) + 0.3 * rng.normal(size=20) + 0.5 * seed
    parts, freedom = [logs[seed == s] for s in range(seeds)], 20 - seeds
    variance = sum(((part - part.mean()) ** 2).sum() for part in parts) / freedom
    error = np.sqrt(variance / 20 + variance**2 / (2 * freedom))
    middle = np.mean([part.mean() for part in parts]) + variance / 2
    a, b = (units(1 + variances, seeds=seeds) for variances in (base * np.exp(logs), base))
    assert stays_less(a, b) == (middle + stats.t.isf(1 - TAIL, freedom) * error < 0)


def test_the_spread_of_ratios_that_are_undefined_or_too_few():
    assert not stays_less(units([np.nan, *[0.1] * 9]), units(np.full(10, 5.0)))
    assert stays_less(units([1.5, 0.5]), units([2.0, 2.0]))


@pytest.mark.parametrize("level", [0.75, 0.95, 0.999])
def test_with_too_few_values_a_median_says_how_many_would_do(level):
    median = median_interval(np.ones(2), level)
    needed = int(median.reason.split(": ")[1].split()[0])
    assert median.reason == f"a median of 2 has no such interval: {needed} are needed"
    for count in (needed - 1, needed):
        assert median_interval(np.arange(float(count)), level).defined == (count == needed)
    median = median_interval(np.array([np.nan, *range(20)]), level)
    assert (median.defined, median.reason) == (False, "not defined on every instance")


def test_the_relative_variance_of_the_typical_instance():
    measured = units(np.arange(1.0, 12.0) + 2.0, 2.0, truth=4.0)
    blind = replace(measured, truth=np.full(11, np.nan))
    lost = replace(blind, mean_square=np.full(11, np.nan))
    assert not typical_relative_variance(lost, unbiased=False, level=0.95).defined
    for cell, unbiased, value in ((measured, False, 3), (measured, True, 1.5), (blind, True, 3)):
        assert typical_relative_variance(cell, unbiased=unbiased, level=0.95).value == value
    # An instance without a signal counts as infinite, so the median moves by half a place.
    lost = replace(measured, mean_square=np.array([-1.0, *[2.0] * 10]))
    median = typical_relative_variance(lost, unbiased=False, level=0.95)
    assert (median.value, median.low, median.high) == (3.5, 1.5, 5.5)
    assert median_interval(np.array([np.inf] * 6 + [1.0] * 5), 0.95).high == np.inf


def test_a_ratio_is_paired_by_instance():
    rng = np.random.default_rng(0)
    size, ratios = rng.lognormal(0, 6, 17), rng.permutation(np.linspace(0.2, 1.4, 17))
    typical = typical_ratio(units(size * ratios + 1), units(size + 1), level=0.95)
    median = typical.median
    assert (median.value, median.low, median.high) == pytest.approx((0.8, 0.5, 1.1), rel=1e-6)
    assert (typical.below, typical.ties, typical.instances) == (11, 0, 17)
    assert typical.p_value == pytest.approx(stats.binomtest(11, 17).pvalue)


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize(("measure", "sign"), [("variance", 1), ("snr", -1)])
def test_a_ratio_that_rare_groups_move_beyond_its_own_end_is_withheld(drawn, measure, sign, side):
    """More variance of a moves the variance up and the SNR down, to the other end."""
    cells = {"a": drawn(0, MANY, noise=1.5, blocks=8), "b": drawn(1, MANY, blocks=8)}
    logs = log_ratio(*cells.values(), measure=measure)
    up = sign == (1 if side == "a" else -1)
    end = logs.high - logs.value if up else logs.value - logs.low
    assert abs(logs.high + logs.low - 2 * logs.value) > 0.05 * logs.width
    for share, reason in ((0.99, ""), (1.01, RARE_GROUPS)):
        cell = cells[side]
        rare = (cell.m2 - cell.mean_square).mean() * np.expm1(share * end) * np.ones(len(cell.m2))
        moved = {key: replace(each, rare=np.zeros(len(each.m2))) for key, each in cells.items()}
        moved[side] = replace(cell, rare=rare)
        ratio = log_ratio(*moved.values(), measure=measure)
        assert (ratio.defined, ratio.reason) == (not reason, reason)


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_median_that_rare_groups_of_each_instance_decide_is_withheld(side):
    """Rare groups may move it to its end; an equal share of both sides does not count."""
    a, b = units(1 + np.linspace(1.0, 2.0, 16)), units(np.full(16, 2.0))
    median = typical_ratio(a, b, level=0.95).median
    moves = {"a": median.high / median.value, "b": median.value / median.low}
    for share, defined in ((0.999, True), (1.01, False)):
        rare = {"a": np.zeros(16), "b": np.zeros(16)}
        rare[side] = ({"a": a, "b": b}[side].m2 - 1) * (moves[side] * share - 1)
        top, bottom = replace(a, rare_alone=rare["a"]), replace(b, rare_alone=rare["b"])
        ratio = typical_ratio(top, bottom, level=0.95)
        # Only rare groups of a can put the median above its interval.
        beyond = share if side == "a" and not defined else 1.0
        assert ratio.most == pytest.approx(median.high * beyond)
        results = [ratio.median]
        if side == "a":
            results.append(typical_relative_variance(top, unbiased=True, level=0.95))
        for result in results:
            assert (result.defined, result.reason) == (defined, "" if defined else RARE_ALONE)
    both = [replace(cell, rare_alone=9 * (cell.m2 - 1)) for cell in (a, b)]
    assert typical_ratio(*both, level=0.95).median == median


@pytest.mark.parametrize(("carrying", "defined"), [(2.9, False), (3.1, True)])
def test_a_median_is_withheld_where_most_pools_hold_too_few_groups_that_carry_it(carrying, defined):
    number = np.array([0.0] * 7 + [carrying] * 2 + [99.0] * 7)
    few = units(np.linspace(2.0, 3.0, 16), carrying=number, rare_alone=np.zeros(16))
    often = replace(few, carrying=np.full(16, 99.0), m2=np.full(16, 2.0))
    for median in (
        typical_ratio(few, often, level=0.95).median,
        typical_ratio(often, few, level=0.95).median,
        typical_relative_variance(few, unbiased=True, level=0.95),
    ):
        assert (median.defined, median.reason) == (defined, "" if defined else RARE_ALONE)
    # Old records lack the share of rare groups.
    old = [replace(cell, rare_alone=None) for cell in (few, often)]
    assert typical_ratio(*old, level=0.95).median.defined


def test_ties_are_no_wins():
    """A variance over none is infinite, and none over none a tie."""
    base = [3.0, 4.0, 5.0, 6.0]
    for a, b, expected in (
        (base, base, (0, 4, 4, 1.0)),
        ([3.0, 4.0 + 1e-12, 4.0, 4.0], base, (2, 2, 4, 0.5)),
        ([2.0, 1.0, 1.5], [1.0, 1.0, 1.0], (0, 1, 3, 0.5)),
    ):
        ratio = typical_ratio(units(a), units(b), level=0.5)
        assert (ratio.below, ratio.ties, ratio.instances, ratio.p_value) == expected
    assert ratio.median.value == np.inf
    with pytest.raises(ValueError, match="different instances"):
        typical_ratio(units([2.0]), units([2.0, 3.0]), level=0.95)
