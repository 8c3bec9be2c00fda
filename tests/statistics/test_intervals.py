"""Intervals of measures: their values, what they are about, and why there is none."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_units import enumerated, with_measure
from scipy import stats

from maxk_lab.statistics.estimates import NO_ERROR, clopper_pearson
from maxk_lab.statistics.intervals import LEAST_SAMPLE, LEAST_SHARE, interval
from maxk_lab.statistics.measures import FIXED, NEW, measures_of
from maxk_lab.statistics.units import BY_GROUPS, FIELDS, Units

MANY, MEASURE, RATE = LEAST_SAMPLE, "value_variance", "dead_gradient_rate"
NAN = np.nan


def units(m2, mean_square=None, inner=None, truth=None, stratum=None, blocks=0, within=None):
    """Units with these moments, 1 by default, and `blocks` blocks that differ a bit."""
    m2 = np.asarray(m2, dtype=float)
    columns = [
        np.ones_like(m2) if column is None else np.asarray(column, dtype=float)
        for column in (m2, mean_square, inner, truth)
    ]
    if blocks:
        within = np.random.default_rng(len(m2)).normal(0, 0.01, (4, len(m2), blocks))
    return Units(
        np.zeros(len(m2), dtype=np.int64) if stratum is None else np.asarray(stratum),
        *columns,
        within=None if within is None else within - within.mean(2, keepdims=True),
    )


def ends(result):
    return result.low, result.high


def test_points_follow_the_formulas():
    half = MANY // 2
    cell = units(*([a, b] * half for a, b in ((3, 5), (1, 2), (0.5, 1.5), (2, 2.5))), blocks=8)
    expected = {
        "variance": (2.5, NEW),
        "relative_variance": (2.5 / 1.5, NEW),
        "snr": (0.6, NEW),
        "squared_bias": (1.75, FIXED),
        "scale": (1 / 2.25, FIXED),
        "cosine": (1 / np.sqrt(1.5 * 2.25), FIXED),
    }
    results = {name: interval(cell, name) for name in expected}
    for name, (value, question) in expected.items():
        result = results[name]
        assert (result.value, result.question) == (pytest.approx(value), question), name
        assert result.low < value < result.high, name
    snr = results["snr"]
    assert ends(results["relative_variance"]) == pytest.approx((1 / snr.high, 1 / snr.low))
    per_unit = [row.name for row in measures_of("gradient") if row.per_unit]
    assert {interval(cell, name).reason for name in per_unit} == {"not measured"}
    strata = units([1.0] * 12 + [9.0] * 8, np.zeros(20), stratum=[0] * 12 + [1] * 8)
    result = interval(strata, "variance")
    assert (result.value, *ends(result), result.question) == (5.0, 5.0, 5.0, NEW)


LINE = np.linspace(-1, 1, MANY)
NO_NORM = units(np.linspace(5, 6, MANY), LINE - 0.01, LINE, LINE, blocks=8)
BLIND = units([1.0, 2.0], [0.5, 0.5], [NAN] * 2, [NAN] * 2, blocks=8)
# Two groups an instance give no error of ‖E ĝ‖², but ∇J is exact.
TWO_GROUPS = units([4.0] * 3, [1.0] * 3, [0.9, 1.0, 1.2], blocks=2)
TWO_GROUPS.within[FIELDS.index("mean_square")] = NAN
TWO_GROUPS.within[FIELDS.index("truth")] = 0.0
# One group alone has weights: the norm has no error, but the variance has one.
ONE_GROUP = units([3.0] * 4, [0.0] * 4, within=np.zeros((4, 4, 8)))
ONE_GROUP.within[0, 0] = np.linspace(-1, 1, 8)
ONE = "1 instance is too few to speak of others"
FEW = "{} instances are too few to speak of others"
LITTLE_SIGNAL = "is not significantly above zero"


@pytest.mark.parametrize(
    ("cell", "measure", "value", "reason"),
    [
        (NO_NORM, "relative_variance", NAN, LITTLE_SIGNAL),
        (NO_NORM, "scale", NAN, LITTLE_SIGNAL),
        (NO_NORM, "cosine", NAN, LITTLE_SIGNAL),
        (units([1.0] * 16, [1.0] * 16), "relative_variance", NAN, "the estimated variance is not"),
        (BLIND, "scale", NAN, "no gradient to judge against"),
        (units([1.0, 2.0], [NAN, 1.0]), "variance", NAN, "not measured"),
        (units([1.0], [0.5]), "variance", 0.5, f"{ONE}; {NO_ERROR}"),
        (TWO_GROUPS, "variance", 3.0, NO_ERROR),
        (TWO_GROUPS, "cosine", 31 / 30, NO_ERROR),
        (ONE_GROUP, "snr", 0.0, NO_ERROR),
        (with_measure([1.0, 2, NAN, NAN], [0, 0, 1, 1]), MEASURE, NAN, "on every resampling unit"),
        (with_measure([1.0, 2.0, 6.0]), MEASURE, 3.0, f"{FEW.format(3)}; {NO_ERROR}"),
    ],
)
def test_an_undefined_measure_has_a_reason(cell, measure, value, reason):
    result = interval(cell, measure)
    assert result.value == pytest.approx(value, nan_ok=True)
    assert (result.defined, reason in result.reason) == (False, True), result.reason


def test_a_measure_needs_only_the_errors_of_its_own_moments():
    assert (interval(BLIND, "variance").value, interval(BLIND, "variance").defined) == (1.0, True)
    assert interval(TWO_GROUPS, "scale").defined


@pytest.mark.parametrize("strata", [(1,), (MANY - 1,), (MANY,), (MANY, 1)])
def test_fewer_instances_than_needed_speak_for_themselves_only(strata):
    count, fallen_back = sum(strata), strata != (MANY,)
    stratum = np.repeat(range(len(strata)), strata)
    cell = units(4 + np.arange(count) % 3, stratum=stratum, blocks=8)
    result, fixed = interval(cell, "variance"), interval(cell, "variance", question=FIXED)
    assert (result.question, result.fallen_back) == (FIXED if fallen_back else NEW, fallen_back)
    assert result.reason == (ONE if count == 1 else FEW.format(count)) * fallen_back
    # New instances differ by more than the noise of an instance.
    assert (fixed.value, fixed.question, fixed.reason) == (result.value, FIXED, "")
    assert (fixed.width == result.width) == fallen_back
    assert 0 < fixed.width <= result.width
    scale = interval(cell, "scale")
    assert (scale.defined, scale.question, scale.fallen_back) == (True, FIXED, False)


@pytest.mark.parametrize("larger", [False, True])
def test_where_too_few_instances_carry_the_mean_it_is_about_the_fixed_ones(larger):
    """One instance of weight w among ones of weight 1 carries (w + U − 1)² / (w² + U − 1)."""

    def number(w):
        return (w + MANY - 1) ** 2 / (w**2 + MANY - 1)

    limit = next(w for w in np.arange(1, 1000, 0.01) if number(w) < LEAST_SHARE * MANY)
    heavy = limit if larger else limit - 0.1
    cell = units(np.array([heavy, *[1.0] * (MANY - 1)]) + 1, blocks=8)
    result = interval(cell, "variance")
    assert (result.question, result.fallen_back) == (FIXED, True)
    assert cell.effective_instances()["variance"] == pytest.approx(number(heavy), rel=1e-3)
    carried = f"{number(heavy):.1f} of {MANY} instances carry the mean"
    # If just enough carry it, instances with still larger values may be missing.
    assert (result.reason == carried) == larger
    assert larger or result.reason.endswith("that still larger ones may be missing")
    assert result.width < 0.05


def test_the_instances_that_carry_the_gradient_are_those_of_its_norm():
    numbers = units([10.0] * 4, [2.0] * 4, truth=[3.0, 1, 0, 0], blocks=8).effective_instances()
    assert numbers == pytest.approx({"variance": 4, "gradient": 16 / 10}, rel=1e-2)
    blind = units([10.0] * 4, [2.0, 2.0, 0.0, 0.0], truth=[NAN] * 4, blocks=8)
    assert blind.effective_instances()["gradient"] == pytest.approx(2, rel=1e-2)


def test_no_interval_leaves_the_range_of_its_measure():
    within = np.random.default_rng(0).normal(0, 3.0, (4, 4, 8))
    wild = units([1.2] * 4, [1.1] * 4, within=within)
    assert interval(wild, "variance").low == interval(wild, "squared_bias").low == 0.0
    within[FIELDS.index("truth")] = 0.0
    within[FIELDS.index("mean_square")] /= 100
    cosine = interval(units([1.2] * 4, [1.1] * 4, within=within), "cosine")
    assert (-1.0 < cosine.low < 0.5, cosine.high) == (True, 1.0)
    # The numbers of an enumeration differ by rounding alone, as do the ends of their interval.
    rates = [[0.0] * (MANY - 3) + [0.001, 0.02, 0.001]]
    for rate in (0.00038621609911910766, 0.0006974777935826181):
        rates.append([rate] * (MANY - 1) + [np.nextafter(rate, 1)])
    for values, error in zip(rates, (1e-3, 1e-19, 1e-19), strict=True):
        result = interval(with_measure(values, name=RATE, errors=[error] * MANY), RATE)
        assert 0 < result.low <= result.value <= result.high < 1


def test_pooled_units_are_enumerated_only_if_all_parts_are(drawn):
    """Their squared bias is no difference of large numbers."""
    tiny = interval(enumerated([1e-30, 3e-30] * 8, truth=[1e6, 4e6] * 8), "squared_bias")
    assert tiny.value == pytest.approx(2e-30, rel=1e-12, abs=0)
    assert (*ends(tiny), tiny.question) == (tiny.value, tiny.value, FIXED)
    measures = {MEASURE: np.array([0.1, 0.2])}
    part = replace(enumerated([1.0, 2.0], truth=[1.0, 4.0]), measures=measures)
    both = Units.pool([part, replace(part, tolerance=1e-4)])
    assert both.squared_bias.tolist() == both.off_direction.tolist() == [1.0, 2.0, 1.0, 2.0]
    assert (both.tolerance, both.within) == (1e-4, None)
    sampled = replace(
        drawn(0, (1.0, 2.0, 3.0)),
        measures={MEASURE: np.array([0.3, 0.4, 0.5])},
        errors={MEASURE: np.array([0.01, 0.02, 0.03])},
        groups=96,
    )
    mixed = Units.pool([part, sampled])
    for name in ("squared_bias", "off_direction", "tolerance", "groups", *BY_GROUPS):
        assert getattr(mixed, name) is None, name
    assert mixed.stratum.tolist() == [0, 0, 1, 1, 1]
    assert not mixed.within[:, :2].any()
    assert (mixed.within[:, 2:] == sampled.within).all()
    assert mixed.errors[MEASURE].tolist() == [0.0, 0.0, 0.01, 0.02, 0.03]
    exact = {
        "along": part.inner - part.truth,
        "anywhere": part.squared_bias,
        "beside": part.off_direction,
    }
    for name, mean in exact.items():
        pooled, drawn_alone = (getattr(cell.deviations, name) for cell in (mixed, sampled))
        assert pooled.mean.tolist() == [*mean, *drawn_alone.mean]
        assert pooled.variance.tolist() == [0.0, 0.0, *drawn_alone.variance]
        assert pooled.freedom == drawn_alone.freedom
    assert interval(mixed, "scale").defined


def test_a_record_gives_back_the_units(drawn):
    cell = replace(
        drawn(0, (1.0, 2.0, 3.0)),
        measures={MEASURE: np.array([0.1, NAN, 0.3])},
        errors={MEASURE: np.array([0.01, NAN, 0.03])},
        carrying=np.array([100.0, 0.0, 3.25]),
        rare=np.array([0.0, 1e-30, 0.5]),
        rare_alone=np.array([0.5, 0.25, 2.0]),
    )
    again = Units.from_metrics({**cell.as_record(), "replicates": 32})
    assert again.groups == 96
    for name in (*FIELDS, *BY_GROUPS):
        assert getattr(again, name).tolist() == getattr(cell, name).tolist()
    assert again.within == pytest.approx(cell.within, rel=1e-5)
    for name, rel in (("measures", 1e-7), ("errors", 1e-5)):
        read, written = (getattr(each, name)[MEASURE] for each in (again, cell))
        assert read == pytest.approx(written, rel=rel, nan_ok=True)
    for name in ("along", "anywhere", "beside"):
        read, written = (vars(getattr(each.deviations, name)) for each in (again, cell))
        for column, values in written.items():
            assert read[column] == pytest.approx(values, rel=1e-5)
    exact = replace(cell, squared_bias=cell.truth, off_direction=cell.truth, tolerance=1e-9)
    pooled = Units.pool([cell, exact])
    for name, value in zip(BY_GROUPS, (np.inf, 0.0, 0.0), strict=True):
        assert getattr(pooled, name).tolist() == [*getattr(cell, name), *[value] * 3]


def test_a_measure_of_units_has_the_interval_of_its_mean_over_units_that_have_it():
    values = np.random.default_rng(0).gamma(4.0, 0.25, 16)
    result = interval(with_measure(values), MEASURE)
    assert (result.value, result.question) == (pytest.approx(values.mean()), NEW)
    assert result.low < result.value < result.high
    same = interval(units(values, np.zeros(16)), "variance")
    assert ends(result) == pytest.approx(ends(same), rel=1e-6)
    assert interval(with_measure([*values, NAN]), MEASURE) == result


def test_a_measure_of_few_units_has_the_error_of_each():
    """Student's t at the freedom of Welch and Satterthwaite, of 7 for each."""
    values, errors = np.array([1.0, 2.0, 6.0]), np.array([0.1, 0.2, 0.2])
    result = interval(with_measure(values, errors=errors), MEASURE)
    assert (result.value, result.fallen_back) == (3.0, True)
    variances = errors**2 / 9
    freedom = 7 * variances.sum() ** 2 / (variances**2).sum()
    reach = stats.t.isf(0.025, freedom) * np.sqrt(variances.sum())
    assert ends(result) == pytest.approx((3 - reach, 3 + reach))
    blocks = replace(with_measure(values, errors=errors), within=np.zeros((4, 3, 4)))
    assert interval(blocks, MEASURE).width > result.width


@pytest.mark.parametrize("ones", [0, 1, 30, 64])
def test_a_share_has_the_interval_of_clopper_and_pearson(ones):
    """Also a rate that no group of the pool showed, or every group."""
    exact = stats.binomtest(ones, 64)
    assert clopper_pearson(ones, 64, 0.9) == pytest.approx(tuple(exact.proportion_ci(0.9)))
    if ones in (0, 64):
        half = replace(with_measure(np.full(4, ones / 64), name=RATE), groups=32)
        result = interval(Units.pool([half, half]), RATE)
        assert result.value == ones / 64
        assert ends(result) == pytest.approx(tuple(exact.proportion_ci(0.95)))


@pytest.mark.parametrize(("sd", "about"), [(0.5, NEW), (2.5, FIXED)])
def test_the_mean_of_instances_that_differ_much_is_about_the_fixed_ones(sd, about):
    """Log-normal values at even quantiles, of which enough seem to carry the mean."""
    quantiles = stats.norm.ppf((np.arange(4 * MANY) + 0.5) / (4 * MANY))
    logs = np.minimum(sd * quantiles, 1.2 * sd)
    cell = units(np.exp(logs), np.zeros(4 * MANY), blocks=8)
    assert cell.effective_instances()["variance"] >= LEAST_SHARE * 4 * MANY
    result = interval(cell, "variance")
    assert (result.question, result.fallen_back) == (about, about == FIXED)
    assert ("still larger ones may be missing" in result.reason) == (about == FIXED)
    errors = np.full(4 * MANY, 1e-3)
    measured = interval(with_measure(np.exp(logs), errors=errors), MEASURE)
    assert (measured.question, measured.reason) == (result.question, result.reason)
    # A rate is at most 1, so no larger values are missing.
    rates = with_measure(np.exp(logs - logs.max()), name=RATE, errors=errors)
    assert interval(rates, RATE).question == NEW


@pytest.mark.parametrize("alone", [False, True])
def test_an_error_that_one_block_carries_gives_no_interval(alone):
    within = np.zeros((4, 4, 8))
    within[0] = np.random.default_rng(0).normal(size=(4, 8))
    if alone:
        within[0] = np.eye(4, 8) * [[1], [0], [0], [0]]
    result = interval(units([3.0] * 4, within=within), "variance", question=FIXED)
    # One block that is 1 lies 7/8 from the mean, the other seven 1/8.
    reason = f"an effective {56**2 / (49**2 + 7):.1f} blocks of groups carry its error: no interval"
    assert (result.defined, result.reason) == (not alone, reason * alone)
