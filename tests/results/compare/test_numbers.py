"""Two numbers set against each other: intervals that hold whatever ties them, and verdicts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from maxk_lab.report.tables import Effect, Estimate
from maxk_lab.results.compare.numbers import between_seeds, set_against, verdict
from maxk_lab.statistics.intervals import Interval, exactly, undefined
from maxk_lab.statistics.seeds import over_seeds


def known(value, low, high, **how):
    return Estimate(Interval(value, low, high, 0.975), better="lower", **how)


def test_the_difference_of_two_intervals_has_the_ends_farthest_apart():
    found = set_against(known(2.0, 1.0, 4.0), known(5.0, 3.0, 8.0), 0.95)
    assert (found.interval.value, found.interval.low, found.interval.high) == (3.0, -1.0, 7.0)
    assert (found.ratio, found.paired) == (False, "")


def test_so_has_their_ratio_where_they_are_told_by_it():
    found = set_against(known(2.0, 1.0, 4.0, as_ratio=True), known(5.0, 3.0, 8.0), 0.95)
    assert (found.interval.value, found.interval.low, found.interval.high) == (2.5, 0.75, 8.0)
    assert found.ratio
    open_end = set_against(known(2.0, 0.0, 4.0, as_ratio=True), known(5.0, 3.0, 8.0), 0.95)
    assert open_end.interval.high == math.inf
    below = set_against(known(2.0, -1.0, 4.0, as_ratio=True), known(5.0, 3.0, 8.0), 0.95)
    assert not below.ratio


def test_exact_numbers_have_an_exact_difference():
    found = set_against(Estimate(exactly(2.0)), Estimate(exactly(5.0)), 0.95)
    assert found.interval == exactly(3.0) or found.interval.width == 0
    assert found.interval.question == "exact"


def test_intervals_about_different_questions_are_not_set_against_each_other():
    one = Estimate(Interval(1.0, 0.5, 1.5, 0.95, question="these instances"))
    other = Estimate(Interval(1.0, 0.5, 1.5, 0.95, question="instances like these"))
    found = set_against(one, other, 0.95).interval
    assert not found.known
    assert "A's interval is about these instances, B's about instances like these" in found.reason
    missing = set_against(one, Estimate(undefined(0.95, "too few")), 0.95).interval
    assert (missing.known, missing.reason) == (False, "too few")


def test_other_seeds_have_the_interval_that_mann_and_whitney_s_test_does_not_reject():
    rng = np.random.default_rng(0)
    for count, others, level in ((4, 4, 0.95), (6, 5, 0.95), (9, 7, 0.999)):
        a, b = rng.normal(size=count), rng.normal(size=others)
        found = between_seeds(a, b, level, ratio=False)
        assert (found.interval.question, found.paired) == ("seeds", "")
        assert found.interval.value == np.median(np.subtract.outer(b, a))
        for end, away in ((found.interval.low, -1e-9), (found.interval.high, 1e-9)):
            beyond, within = (
                stats.mannwhitneyu(b - (end + step), a, method="exact").pvalue
                for step in (away, -away)
            )
            assert beyond <= 1 - level < within


def test_too_few_other_seeds_have_no_interval():
    three, four = np.arange(3.0), np.arange(4.0)
    found = between_seeds(three, three + 100, 0.95, ratio=False).interval
    assert (found.value, found.known, found.reason) == (100, False, "3 and 3 seeds: too few")
    assert between_seeds(four, four + 100, 0.95, ratio=False).interval.known
    holes = np.array([1.0, 2.0, 3.0, np.nan])
    found = between_seeds(holes, four, 0.95, ratio=False).interval
    assert (found.known, found.reason) == (False, "not defined in every seed")


def test_the_ratio_of_other_seeds_is_that_of_their_values():
    a, b = np.array([1.0, 2.0, 4.0, 8.0]), np.array([10.0, 20.0, 40.0, 80.0])
    found = between_seeds(a, b, 0.95, ratio=True)
    assert (found.ratio, found.interval.value) == (True, 10.0)
    assert (found.interval.low, found.interval.high) == (1.25, 80.0)


@pytest.mark.parametrize("tied", [0.0, 1.0, -1.0], ids=["independent", "tied", "opposed"])
def test_the_interval_of_a_difference_covers_however_the_two_are_tied(tied):
    rng = np.random.default_rng(0)
    count, covered = 1000, 0
    for _ in range(count):
        mine, own = rng.standard_normal((2, 5))
        theirs = 0.3 + (tied * mine if tied else own)
        a, b = (Estimate(over_seeds(values, 0.975)) for values in (mine, theirs))
        found = set_against(a, b, 0.95).interval
        covered += found.low <= 0.3 <= found.high
    assert covered >= 0.94 * count


@pytest.mark.parametrize(
    ("low", "high", "better", "said"),
    [
        (0.5, 2.0, "lower", "worse"),
        (-2.0, -0.5, "lower", "better"),
        (0.5, 2.0, "higher", "better"),
        (0.5, 2.0, "", "differs"),
        (-1.0, 2.0, "lower", "not significant"),
        (0.01, 0.09, "lower", "tie"),
        (0.01, 0.11, "lower", "worse"),
        (math.nan, math.nan, "lower", "not significant"),
    ],
)
def test_the_verdict_on_a_difference(low, high, better, said):
    effect = Effect(Interval(0.05, low, high, 0.95))
    a = Estimate(exactly(-10.0), better=better)
    assert verdict(effect, a, a, tie=0.01) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.5, 2.0, "worse"),
        (0.2, 0.9, "better"),
        (0.9, 1.1, "not significant"),
        (0.995, 1.005, "tie"),
    ],
)
def test_the_verdict_on_a_ratio(low, high, said):
    effect = Effect(Interval(1.0, low, high, 0.95), ratio=True)
    a = Estimate(exactly(10.0), better="lower")
    assert verdict(effect, a, a, tie=0.01) == said


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (5.3e-31, 8.0e-31, "tie"),
        (8.0e-31, 5.3e-31, "tie"),
        (0.0, 9.0e-19, "tie"),
        (9.0e-19, 1.1e-18, "tie"),
        (5.3e-31, 1.0e-2, "worse"),
        (1.0e-2, 5.3e-31, "better"),
        (1.0e-2, 1.0e-2 + 1e-17, "tie"),
    ],
)
def test_two_errors_of_rounding_are_a_tie_and_are_not_divided(a, b, said):
    one, other = (
        Estimate(exactly(value), better="lower", as_ratio=True, rounding=1e-18) for value in (a, b)
    )
    effect = set_against(one, other, 0.95)
    assert effect.ratio == (a > 1e-18)
    assert verdict(effect, one, other, tie=0.0) == said
