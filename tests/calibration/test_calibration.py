"""Coverage, family-wise error and power: seeded, and short versions of `make calibrate`.

Every bound is where a true share, as stated, would be with another seed once in ten thousand times.
Student's t or a bootstrap over instances, plain t of gaps and shares, a quantile of numpy's, and
winners without a correction miss the truth in 12 % to 40 % of some of these studies, and fail.
"""

from dataclasses import replace

import numpy as np
import pytest
from calibration import intervals, pools, steps, trainings
from calibration.populations import HEAVY, MILD, PARETO, Design
from calibration.rows import ALPHA
from scipy import stats

pytestmark = pytest.mark.slow
# Errors of the size that one test of ten thousand makes by chance.
CHANCE = 1e-4
# What intervals are claimed to cover: 95 ± 2 %, and those of few instances a little less.
COVERED, COVERED_OF_FEW = 0.93, 0.90
NORMS_APART, FAR_APART = intervals.NORMS
# Means that the assumption of normal seeds does not fit, and nothing in five of them tells so.
UNCOVERED = ("log-normal(1), unbounded", "one in ten 8 sd off")


def at_most(share, of):
    """The largest share of so many that a true one explains."""
    return stats.binom.isf(CHANCE, of, share) / of


def at_least(share, of):
    """The smallest share of so many that a true one explains."""
    return stats.binom.ppf(CHANCE, of, share) / of


@pytest.mark.parametrize(
    "population",
    [
        pytest.param(MILD, id="mild"),
        pytest.param(HEAVY, id="heavy", marks=pytest.mark.deep),
        pytest.param(PARETO, id="pareto", marks=pytest.mark.deep),
    ],
)
def test_intervals_cover_or_are_withheld(population):
    fixed, repetitions = 0, 160
    for row in intervals.coverage(repetitions, [population], [Design(1, 16, 16)]):
        if row.statistic.endswith(", fixed instances"):
            fixed += 1
            assert row.covered >= at_least(COVERED, round(row.shown * repetitions)), row
        else:
            assert row.wrong <= at_most(1 - COVERED_OF_FEW, repetitions), row
    assert fixed >= 8


@pytest.mark.parametrize(
    ("population", "design", "judge"),
    [
        pytest.param(MILD, Design(1, 16, 4), "", id="four groups"),
        pytest.param(HEAVY, Design(1, 16, 16), "", id="heavy", marks=pytest.mark.deep),
        pytest.param(NORMS_APART, Design(1, 16, 16), "cell 1", id="against a reference"),
        pytest.param(FAR_APART, Design(1, 4, 64), "", id="four instances", marks=pytest.mark.deep),
    ],
)
def test_of_twelve_unbiased_cells_any_is_called_biased_at_most_as_often_as_said(
    population, design, judge
):
    repetitions = 120
    (row,) = intervals.family_wise_error(repetitions, [population], [design], judge=judge)
    assert row.covered <= at_most(ALPHA, repetitions), row


def test_a_bias_is_found_as_often_as_is_printed():
    repetitions = 50
    half, printed = intervals.power(repetitions, [NORMS_APART], [Design(1, 16, 64)])
    assert half.covered >= at_least(0.95, repetitions), half
    assert printed.shown == 1
    assert at_least(0.75, repetitions) <= printed.covered <= at_most(0.85, repetitions), printed


def test_a_star_is_seldom_on_the_wrong_side_and_mostly_on_the_right_one():
    repetitions = 120
    wrong, right = intervals.stars(repetitions, [MILD], [Design(1, 64, 16)], differs=[1.0])
    assert wrong.covered <= at_most(intervals.WRONG, repetitions), wrong
    assert right.covered >= at_least(0.65, repetitions), right


@pytest.mark.deep
def test_estimators_unbiased_by_proof_seldom_look_biased_in_pools_of_real_policies():
    few = {"n": (8,), "k": (2, 4), "sizes": (512,), "instances": 8}
    tasks = [replace(task, **few) for task in (pools.BANDIT, pools.TOY_LLM)]
    rows = [
        row
        for row in pools.false_verdicts(2, tasks=tasks)
        if row.statistic == "any false verdict, one seed"
    ]
    assert len(rows) == 2
    assert np.mean([row.covered for row in rows]) <= at_most(ALPHA, 2 * 2 * pools.SETS)


# Rows, their number, the share that may be shown and wrong, and that which must be shown.
TRAININGS = {
    "shares": (lambda of: trainings.over_instances(of, (64,), shares=True), 3, 0.07, 0.0),
    "means of seeds": (lambda of: trainings.means_of_seeds(of, (5,)), 9, 0.07, 1.0),
    "instances": (lambda of: trainings.over_instances(of, (128,)), 9, 0.055, 0.1),
}


@pytest.mark.parametrize("what", TRAININGS)
def test_intervals_of_trainings_cover(what):
    of, number, wrong, shown = TRAININGS[what]
    repetitions = 1000
    every = list(of(repetitions))
    rows = [
        row
        for row in every
        if row.statistic != "mean, none apart" and not row.regime.endswith(UNCOVERED)
    ]
    unmarked = [row for row in every if row.statistic == "mean, none apart"]
    untold = [row for row in unmarked if row.regime.endswith(UNCOVERED)]
    assert len(untold) == (2 if what == "means of seeds" else 0)
    assert all(row.wrong >= 0.1 for row in untold), untold
    assert len(rows) == number
    for row in rows:
        carried = what == "instances" and row.regime.endswith("not 0")
        assert row.wrong <= at_most(wrong, repetitions), row
        assert row.shown >= (0.8 if what == "instances" and not carried else shown), row
        if what in ("means of seeds", "instances") and not carried:
            assert row.covered <= 0.975 + 4 * row.se, row


def test_the_intervals_of_a_step_cover_all_instances():
    rows = [*steps.coverage(100, (MILD,), steps.DESIGNS[2:4])]
    assert len(rows) == 4
    for row in rows:
        assert row.shown == 1, row
        assert row.covered >= at_least(0.95, 100), row


def test_seeds_are_named_as_apart_as_often_as_said():
    rows = {row.regime: row for row in trainings.seeds_apart(1000, (3, 5))}
    for count, power in ((3, 0.14), (5, 0.77)):
        alarm, found = rows[f"{count} seeds, normal"], rows[f"{count} seeds, one 8 sd off"]
        assert alarm.covered <= at_most(alarm.nominal, 1000), alarm
        assert at_least(power, 1000) <= found.covered <= at_most(power, 1000), found


def test_winners_are_named_by_chance_no_more_often_than_said():
    """Of rows whose seeds are bell-shaped; where one has another shape, as a list itself says."""
    # Without the correction for rivals 36 % to 52 %: rows at 5 % show that in all but 1e-5.
    repetitions = 100
    for row in trainings.winners(repetitions):
        alike = row.regime.endswith("2 K")
        assert row.covered <= at_most(row.nominal if alike else 0.13, repetitions), row


def test_seeds_alone_make_two_runs_seldom_better_or_worse():
    rows = list(trainings.other_seeds(400))
    assert len(rows) == 20
    for row in rows:
        assert row.covered <= at_most(row.nominal, 400), row
    assert all(row.covered == 0 for row in rows if " 3 seeds" in row.regime)
    assert any(row.covered > 0.02 for row in rows)
