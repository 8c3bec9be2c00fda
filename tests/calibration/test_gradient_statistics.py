"""Coverage, family-wise error and power of gradient statistics: seeded, short `make calibrate`.

Every bound is where a true share, as stated, would be with another seed once in ten thousand times.
"""

import math

import numpy as np
import pytest
from calibration import intervals, pools, tails, verdicts
from calibration.populations import HEAVY, MILD, PARETO, Cell, Design, Population, draw
from calibration.rows import counted
from scipy import stats

from maxk_lab.statistics.bias import bias_verdicts

pytestmark = pytest.mark.slow
# Errors of the size that one test of ten thousand makes by chance.
CHANCE = 1e-4
# What intervals are claimed to cover: 95 ± 2 %, and those of few instances a little less.
COVERED, COVERED_OF_FEW = 0.93, 0.90
NORMS_APART = Population.of_norms(3)


def at_most(share, of):
    """The largest share of so many that a true one explains."""
    return stats.binom.isf(CHANCE, of, share) / of


def at_least(share, of):
    """The smallest share of so many that a true one explains."""
    return stats.binom.ppf(CHANCE, of, share) / of


@pytest.mark.parametrize("population", [MILD, HEAVY, PARETO], ids=["mild", "heavy", "pareto"])
def test_intervals_cover_or_are_withheld(population):
    repetitions, of_these = 160, 0
    for row in intervals.coverage(repetitions, [population], [Design(1, 16, 16)]):
        if row.statistic.endswith(", these"):
            of_these += 1
            shown = round(row.shown * repetitions)
            assert row.covered >= at_least(COVERED, shown), row
        else:
            assert row.wrong <= at_most(1 - COVERED_OF_FEW, repetitions), row
    assert of_these == len(intervals.THEIR)


def test_of_heavy_tailed_rewards_a_wrong_mean_is_seldom_shown():
    repetitions = 40
    for row in tails.coverage(repetitions, [1.5], [16]):
        if row.statistic.endswith(", these"):
            shown = round(row.shown * repetitions)
            assert row.covered >= at_least(COVERED, shown), row
        else:
            assert row.wrong <= at_most(1 - COVERED_OF_FEW, repetitions), row


def test_below_sixteen_instances_an_interval_is_about_these():
    few = [row for row in intervals.coverage(3, [MILD], [Design(1, 8, 16)]) if row.shown == 0]
    named = {row.statistic for row in few}
    assert named >= {f"{name}, like these" for name in intervals.LIKE if name != "median ratio"}


FAMILIES = [
    (MILD, Design(1, 16, 4), ""),
    (HEAVY, Design(1, 16, 16), ""),
    (NORMS_APART, Design(1, 16, 16), ""),
    (NORMS_APART, Design(1, 16, 16), "cell 1"),
    (Population.of_norms(6), Design(1, 4, 64), ""),
]


@pytest.mark.parametrize(
    ("population", "design", "judge"),
    FAMILIES,
    ids=["four groups", "heavy", "norms apart", "against a reference", "four instances"],
)
def test_a_family_of_unbiased_estimators_is_called_biased_in_five_per_cent(
    population, design, judge
):
    repetitions = 120
    (row,) = verdicts.family_wise_error(repetitions, [population], [design], judge=judge)
    assert row.covered <= at_most(verdicts.ALPHA, repetitions), row


def test_errors_from_residuals_across_instances_are_found_out_by_the_same_bound():
    repetitions, wrong = 120, []
    for repetition in range(repetitions):
        report = draw(NORMS_APART, Design(1, 16, 16), {"a": Cell()}, [0, repetition])
        units = report.units["a"]
        scale = units.inner.sum() / units.truth.sum()
        residuals = units.inner - scale * units.truth
        t = (scale - 1) * units.truth.sum() / math.sqrt((residuals**2).sum())
        wrong.append(bool(2 * stats.t.sf(abs(t), 15) < verdicts.ALPHA))
    row = counted("residuals", "false verdict", verdicts.ALPHA, wrong, repetitions)
    assert row.covered > at_most(verdicts.ALPHA, repetitions), row


@pytest.mark.parametrize("population", [MILD, NORMS_APART], ids=["alike", "apart"])
def test_a_bias_is_found_as_often_as_is_printed(population):
    repetitions = 50
    half, printed, _ = verdicts.power(repetitions, [population], [Design(1, 16, 64)])
    assert half.covered >= at_least(0.95, repetitions), half
    assert printed.shown == 1
    assert at_least(0.75, repetitions) <= printed.covered <= at_most(0.85, repetitions), printed


def test_of_few_groups_it_is_not_told_what_could_be_seen():
    report = draw(MILD, Design(1, 16, 8), verdicts.UNBIASED, [0])
    found = bias_verdicts(report.units).values()
    assert all(math.isnan(verdict.detectable) for verdict in found)
    assert {verdict.reason for verdict in found} == {
        "fewer than 16 groups an instance: what could be seen is not known"
    }


def test_a_bias_on_one_instance_of_small_gradient_is_named():
    repetitions = 30
    *_, alone = verdicts.power(repetitions, [MILD], [Design(1, 4, 256)])
    assert alone.covered >= at_least(0.8, repetitions), alone


def test_a_star_is_seldom_on_the_wrong_side_and_mostly_on_the_right_one():
    repetitions = 200
    designs = [Design(1, 64, 16), Design(2, 16, 64)]
    rows = list(intervals.stars(repetitions, [MILD], designs, differs=[1.0, 2.0]))
    wrong = [row for row in rows if row.statistic == "wrong star"]
    right = [row for row in rows if row.statistic == "right star"]
    assert len(wrong) == len(right) == 4
    for row in wrong:
        assert row.covered <= at_most(intervals.WRONG, repetitions), row
    assert right[0].covered >= at_least(0.65, repetitions), right[0]


def test_estimators_unbiased_by_proof_seldom_look_biased_in_pools_of_real_policies():
    tasks = [pools.BANDIT, pools.TOY_LLM]
    rows = [
        row
        for row in pools.false_verdicts(2, tasks=tasks)
        if row.statistic == "any false verdict, one seed"
    ]
    reports = 2 * pools.SETS
    assert len(rows) == len(tasks)
    assert np.mean([row.covered for row in rows]) <= at_most(verdicts.ALPHA, len(rows) * reports)
