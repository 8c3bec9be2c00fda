"""Intervals of measures: their values, what they are about, and when there is none."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_units import enumerated, with_measure
from scipy import stats

from maxk_lab.statistics.estimates import NO_ERROR, clopper_pearson
from maxk_lab.statistics.intervals import LEAST_SAMPLE, LEAST_SHARE, interval, norm_is_known
from maxk_lab.statistics.measures import FIXED, NEW, measures_of
from maxk_lab.statistics.units import BY_GROUPS, FIELDS, Units

MANY, MEASURE = LEAST_SAMPLE, "value_variance"


def units(m2, mean_square=None, inner=None, truth=None, stratum=None, blocks=0):
    """Units with these moments, 1 where none are given; with `blocks` blocks that differ a bit."""
    m2 = np.asarray(m2, dtype=float)
    columns = [
        np.ones_like(m2) if column is None else np.asarray(column, dtype=float)
        for column in (m2, mean_square, inner, truth)
    ]
    far = np.random.default_rng(len(m2)).normal(0, 0.01, (4, len(m2), max(blocks, 1)))
    return Units(
        np.zeros(len(m2), dtype=np.int64) if stratum is None else np.asarray(stratum),
        *columns,
        within=far - far.mean(2, keepdims=True) if blocks else None,
    )


def parts(units):
    """The three deviations of units."""
    found = units.deviations
    return found.along, found.anywhere, found.beside


def test_points_follow_the_formulas():
    half = MANY // 2
    u = units([3.0, 5.0] * half, [1.0, 2.0] * half, [0.5, 1.5] * half, [2.0, 2.5] * half, blocks=8)
    expected = {
        "variance": 2.5,
        "relative_variance": 2.5 / 1.5,
        "snr": 0.6,
        "squared_bias": 1.75,
        "scale": 1 / 2.25,
    }
    expected["cosine"] = 1 / np.sqrt(1.5 * 2.25)
    assert {name: interval(u, name).value for name in expected} == pytest.approx(expected)
    others = [row.name for row in measures_of("gradient") if row.per_unit]
    assert {interval(u, name).reason for name in others} == {"not measured"}
    assert all(
        interval(u, name).low < value < interval(u, name).high for name, value in expected.items()
    )
    snr, relative = interval(u, "snr"), interval(u, "relative_variance")
    assert (relative.low, relative.high) == pytest.approx((1 / snr.high, 1 / snr.low))
    about = {name: interval(u, name).question for name in expected}
    assert about == {
        **dict.fromkeys(("variance", "relative_variance", "snr"), NEW),
        **dict.fromkeys(("squared_bias", "scale", "cosine"), FIXED),
    }


def test_strata_weigh_the_same_and_stay():
    u = units([1.0] * 12 + [9.0] * 8, np.zeros(20), stratum=[0] * 12 + [1] * 8)
    found = interval(u, "variance")
    assert (found.value, found.low, found.high, found.question) == (5.0, 5.0, 5.0, NEW)


def test_undefined_measures_say_why():
    line = np.linspace(-1, 1, MANY)
    nothing = units(np.linspace(5, 6, MANY), line - 0.01, line, line, blocks=8)
    for name in ("relative_variance", "scale", "cosine"):
        found = interval(nothing, name)
        assert np.isnan(found.value)
        assert "zero" in found.reason
    blind = units([1.0, 2.0], [0.5, 0.5], [np.nan] * 2, [np.nan] * 2, blocks=8)
    assert interval(blind, "scale").reason == "no gradient to judge against"
    assert interval(blind, "variance").value == 1.0
    assert interval(blind, "variance").defined
    unmeasured = interval(units([1.0, 2.0], [np.nan, 1.0]), "variance")
    assert np.isnan(unmeasured.value)
    assert "not measured" in unmeasured.reason
    single = interval(units([1.0], [0.5]), "variance")
    assert np.isnan(single.low)
    assert single.reason == f"1 instances are too few to speak of others; {NO_ERROR}"


@pytest.mark.parametrize("strata", [(1,), (MANY - 1,), (MANY,), (MANY, 1)])
def test_fewer_instances_than_needed_speak_for_themselves_only(strata):
    count, fallen_back = sum(strata), strata != (MANY,)
    stratum = np.repeat(range(len(strata)), strata)
    u = units(4 + np.arange(count) % 3, stratum=stratum, blocks=8)
    found = interval(u, "variance")
    assert found.fallen_back == fallen_back
    assert found.question == (FIXED if fallen_back else NEW)
    said = f"{count} instances are too few to speak of others" if fallen_back else ""
    assert found.reason == said
    # Those of others differ by more than the noise of one.
    other = interval(u, "variance", question=FIXED)
    assert (other.value, other.question, other.reason) == (found.value, FIXED, "")
    assert (other.width == found.width) == fallen_back
    assert 0 < other.width <= found.width
    scale = interval(u, "scale")
    assert (scale.defined, scale.question, scale.fallen_back) == (True, FIXED, False)


@pytest.mark.parametrize("larger", [False, True])
def test_where_too_few_instances_carry_the_mean_it_is_about_these(larger):
    """One instance of weight w among ones of weight 1 carries (w + U − 1)² / (w² + U − 1)."""
    wanted = LEAST_SHARE * MANY

    def number(w):
        return (w + MANY - 1) ** 2 / (w**2 + MANY - 1)

    at = next(w for w in np.arange(1, 1000, 0.01) if number(w) < wanted)
    heavy = at if larger else at - 0.1
    variances = np.array([heavy, *[1.0] * (MANY - 1)])
    u = units(variances + 1, blocks=8)
    found = interval(u, "variance")
    assert (found.question, found.fallen_back) == (FIXED, True)
    assert u.effective_instances()["variance"] == pytest.approx(number(heavy), rel=1e-3)
    carried = f"{number(heavy):.1f} of {MANY} instances carry the mean"
    # Where just enough carry it, the one is still so far that others like it may be missing.
    assert (found.reason == carried) == larger
    assert larger or found.reason.endswith("that still larger ones may be missing")
    assert found.width < 0.05


def test_the_instances_that_carry_the_gradient_are_those_of_its_norm():
    u = units([10.0] * 4, [2.0] * 4, truth=[3.0, 1.0, 0.0, 0.0], blocks=8)
    found = u.effective_instances()
    assert found["variance"] == pytest.approx(4)
    assert found["gradient"] == pytest.approx(16 / 10, rel=1e-2)
    blind = units([10.0] * 4, [2.0, 2.0, 0.0, 0.0], truth=[np.nan] * 4, blocks=8)
    assert blind.effective_instances()["gradient"] == pytest.approx(2, rel=1e-2)


def test_a_norm_that_is_known_exactly_needs_no_blocks_for_the_others():
    """Two groups an instance tell no error of ‖E ĝ‖², but ∇J is exact."""
    u = units([4.0] * 3, [1.0] * 3, [0.9, 1.0, 1.2], [1.0] * 3, blocks=2)
    within = u.within.copy()
    within[FIELDS.index("mean_square")] = np.nan
    within[FIELDS.index("truth")] = 0.0
    two_groups = replace(u, within=within)
    assert norm_is_known(two_groups)
    assert interval(two_groups, "scale").defined
    assert interval(two_groups, "variance").reason.endswith(NO_ERROR)
    assert np.isnan(interval(two_groups, "cosine").low)


def test_no_interval_leaves_the_values_that_there_are():
    rng = np.random.default_rng(0)
    far = rng.normal(0, 3.0, (4, 4, 8))
    wild = replace(
        units([1.2] * 4, [1.1] * 4, [1.0] * 4, [1.0] * 4),
        within=far - far.mean(2, keepdims=True),
    )
    assert interval(wild, "variance").low == 0.0
    assert interval(wild, "squared_bias").low == 0.0
    exact = wild.within.copy()
    exact[FIELDS.index("truth")] = 0.0
    exact[FIELDS.index("mean_square")] /= 100
    cosine = interval(replace(wild, within=exact), "cosine")
    assert (-1.0 < cosine.low < 0.5, cosine.high) == (True, 1.0)


def test_pooled_units_are_enumerated_only_if_all_parts_are():
    """Their squared bias is no difference of large numbers."""
    tiny = interval(enumerated([1e-30, 3e-30] * 8, truth=[1e6, 4e6] * 8), "squared_bias")
    assert tiny.value == pytest.approx(2e-30, rel=1e-12, abs=0)
    assert (tiny.low, tiny.high, tiny.question) == (tiny.value, tiny.value, FIXED)
    part = enumerated([1.0, 2.0], truth=[1.0, 4.0])
    both = Units.pool([part, replace(part, tolerance=1e-4)])
    assert both.squared_bias.tolist() == [1.0, 2.0, 1.0, 2.0]
    assert both.off_direction.tolist() == [1.0, 2.0] * 2
    assert both.tolerance == 1e-4
    assert both.within is None


def test_enumerated_units_have_no_error_among_sampled_ones(drawn):
    part = replace(
        enumerated([1.0, 2.0], truth=[1.0, 4.0]),
        measures={MEASURE: np.array([0.1, 0.2])},
    )
    sampled = replace(
        drawn(0, (1.0, 2.0, 3.0)),
        measures={MEASURE: np.array([0.3, 0.4, 0.5])},
        errors={MEASURE: np.array([0.01, 0.02, 0.03])},
        groups=96,
    )
    mixed = Units.pool([part, sampled])
    assert (mixed.squared_bias, mixed.off_direction, mixed.tolerance) == (None, None, None)
    assert mixed.groups is None
    assert mixed.stratum.tolist() == [0, 0, 1, 1, 1]
    assert not mixed.within[:, :2].any()
    assert (mixed.within[:, 2:] == sampled.within).all()
    assert mixed.errors[MEASURE].tolist() == [0.0, 0.0, 0.01, 0.02, 0.03]
    exactly = (part.inner - part.truth, part.squared_bias, part.off_direction)
    for found, own, mean in zip(parts(mixed), parts(sampled), exactly, strict=True):
        assert found.mean.tolist() == [*mean, *own.mean]
        assert found.variance.tolist() == [0.0, 0.0, *own.variance]
        assert found.freedom == own.freedom
    assert (mixed.carrying, mixed.rare, mixed.rare_alone) == (None, None, None)
    assert interval(mixed, "scale").defined


def test_a_record_gives_back_the_units(drawn):
    units = replace(
        drawn(0, (1.0, 2.0, 3.0)),
        measures={MEASURE: np.array([0.1, np.nan, 0.3])},
        errors={MEASURE: np.array([0.01, np.nan, 0.03])},
        carrying=np.array([100.0, 0.0, 3.25]),
        rare=np.array([0.0, 1e-30, 0.5]),
        rare_alone=np.array([0.5, 0.25, 2.0]),
    )
    again = Units.from_metrics({**units.as_record(), "replicates": 32})
    assert again.groups == 96
    for name in FIELDS:
        assert getattr(again, name).tolist() == getattr(units, name).tolist()
    assert again.within == pytest.approx(units.within, rel=1e-5)
    np.testing.assert_allclose(again.measures[MEASURE], units.measures[MEASURE])
    np.testing.assert_allclose(again.errors[MEASURE], units.errors[MEASURE], rtol=1e-5)
    for found, own in zip(parts(again), parts(units), strict=True):
        assert found.freedom == own.freedom
        for column in ("mean", "variance", "third", "carrying"):
            assert getattr(found, column) == pytest.approx(getattr(own, column), rel=1e-5)
    for name in BY_GROUPS:
        assert getattr(again, name).tolist() == getattr(units, name).tolist()
    exact = replace(units, squared_bias=units.truth, off_direction=units.truth, tolerance=1e-9)
    pooled = Units.pool([units, exact])
    assert pooled.carrying.tolist() == [*units.carrying, *[np.inf] * 3]
    assert pooled.rare.tolist() == [*units.rare, *[0.0] * 3]
    assert pooled.rare_alone.tolist() == [*units.rare_alone, *[0.0] * 3]


def test_a_measure_of_units_has_the_interval_of_its_mean_over_units_that_have_it():
    rng = np.random.default_rng(0)
    values = rng.gamma(4.0, 0.25, 16)
    full = interval(with_measure(values), MEASURE)
    assert full.value == pytest.approx(values.mean())
    assert full.low < full.value < full.high
    assert full.question == NEW
    same = interval(replace(units(values, np.zeros(16)), measures={}), "variance")
    assert (full.low, full.high) == pytest.approx((same.low, same.high), rel=1e-6)
    assert interval(with_measure([*values, np.nan]), MEASURE) == full
    one_stratum_without = interval(with_measure([1.0, 2.0, np.nan, np.nan], [0, 0, 1, 1]), MEASURE)
    assert np.isnan(one_stratum_without.value)
    assert "undefined on every resampling unit" in one_stratum_without.reason


def test_a_measure_of_few_units_has_the_error_of_each():
    values, errors = np.array([1.0, 2.0, 6.0]), np.array([0.1, 0.2, 0.2])
    found = interval(with_measure(values, errors=errors), MEASURE)
    assert (found.value, found.fallen_back) == (3.0, True)
    # Student's t at the freedom of Welch and Satterthwaite, of 7 for each.
    variances = errors**2 / 9
    freedom = 7 * variances.sum() ** 2 / (variances**2).sum()
    reach = stats.t.isf(0.025, freedom) * np.sqrt(variances.sum())
    assert (found.low, found.high) == pytest.approx((3 - reach, 3 + reach))
    without = interval(with_measure(values), MEASURE)
    assert (without.value, without.defined) == (3.0, False)
    assert without.reason == f"3 instances are too few to speak of others; {NO_ERROR}"
    blocks = np.zeros((4, 3, 4))
    fewer = interval(replace(with_measure(values, errors=errors), within=blocks), MEASURE)
    assert fewer.width > found.width


def test_a_rate_stays_between_its_limits_and_holds_its_mean():
    """The numbers of an enumeration differ by rounding alone, as do the ends of its interval."""
    rare = [0.0] * (MANY - 3) + [0.001, 0.02, 0.001]
    name = "dead_gradient_rate"
    found = interval(with_measure(rare, name=name, errors=[1e-3] * MANY), name)
    assert 0 < found.low < found.value < found.high < 1
    for rate in (0.00038621609911910766, 0.0006974777935826181):
        values = [rate] * (MANY - 1) + [np.nextafter(rate, 1)]
        found = interval(with_measure(values, name=name, errors=[1e-19] * MANY), name)
        assert found.low <= found.value <= found.high


def test_a_rate_that_no_group_showed_is_bounded_by_how_many_groups_there_were():
    name = "dead_gradient_rate"
    never, always = (
        replace(with_measure(np.full(4, rate), name=name), groups=64) for rate in (0.0, 1.0)
    )
    for units, ones, groups in ((Units.pool([never, never]), 0, 128), (always, 64, 64)):
        found, exact = interval(units, name), stats.binomtest(ones, groups)
        assert (found.low, found.high) == pytest.approx(tuple(exact.proportion_ci(0.95)))
        assert found.value == ones / groups


@pytest.mark.parametrize("ones", [0, 1, 30, 64])
def test_a_share_has_the_interval_of_clopper_and_pearson(ones):
    exact = stats.binomtest(ones, 64).proportion_ci(0.9, method="exact")
    assert clopper_pearson(ones, 64, 0.9) == pytest.approx(tuple(exact))


@pytest.mark.parametrize(("sd", "about"), [(0.5, NEW), (2.5, FIXED)])
def test_where_instances_differ_much_their_mean_says_nothing_of_others(sd, about):
    """Log-normal values at even quantiles, of which enough seem to carry the mean."""
    quantiles = stats.norm.ppf((np.arange(4 * MANY) + 0.5) / (4 * MANY))
    logs = np.minimum(sd * quantiles, 1.2 * sd)
    u = units(np.exp(logs), np.zeros(4 * MANY), blocks=8)
    assert u.effective_instances()["variance"] >= LEAST_SHARE * 4 * MANY
    found = interval(u, "variance")
    assert found.question == about
    assert found.fallen_back == (about == FIXED)
    assert ("still larger ones may be missing" in found.reason) == (about == FIXED)
    errors = np.full(4 * MANY, 1e-3)
    measured = interval(with_measure(np.exp(logs), errors=errors), MEASURE)
    assert (measured.question, measured.reason) == (found.question, found.reason)
    # A rate has no larger values than 1.
    name, rates = "dead_gradient_rate", np.exp(logs - logs.max())
    assert interval(with_measure(rates, name=name, errors=errors), name).question == NEW


@pytest.mark.parametrize("alone", [False, True])
def test_an_error_that_one_block_carries_gives_no_interval(alone):
    far = np.zeros((4, 4, 8))
    far[0] = np.random.default_rng(0).normal(size=(4, 8))
    if alone:
        far[0] = 0.0
        far[0, 0, 0] = 1.0
    u = replace(units([3.0] * 4, [1.0] * 4), within=far - far.mean(2, keepdims=True))
    found = interval(u, "variance", question=FIXED)
    # One block that is 1 lies 7/8 from the mean, the other seven 1/8.
    reason = f"an effective {56**2 / (49**2 + 7):.1f} blocks of groups carry its error: no interval"
    assert (found.defined, found.reason) == (not alone, reason if alone else "")


def test_a_mean_gradient_that_no_block_shows_is_not_known_to_be_0():
    """Of one group alone the weights are not 0: the norm's error is 0, but not the variance's."""
    far = np.zeros((4, 4, 8))
    far[0, 0] = np.linspace(-1, 1, 8)
    found = interval(replace(units([3.0] * 4, [0.0] * 4), within=far), "snr", question=FIXED)
    assert (found.defined, found.reason) == (False, NO_ERROR)
