"""Coverage of the intervals of training studies: seeded, and short versions of `make calibrate`.

The bounds are four standard errors of a share of so many studies beyond what is claimed, so that
another seed would fail once in thirty thousand times. Student's t or a bootstrap over instances,
plain t of gaps and shares, a quantile of numpy's, and winners without a correction miss the truth
in 12 % to 40 % of some of these studies, and fail.
"""

import math

import pytest
from calibration import training_intervals as simulated

pytestmark = pytest.mark.slow
REPETITIONS = 1000
# What the intervals are claimed to cover: 95 ± 2 %.
MISSED = 0.07
# Means that the assumption of normal seeds does not fit, and nothing in five of them tells so.
UNCOVERED = ("log-normal(1), unbounded", "one in ten 8 sd off")


def at_most(share, repetitions=REPETITIONS):
    """The largest share of the simulated studies that a true one of `share` explains."""
    return share + 4 * math.sqrt(share * (1 - share) / repetitions)


def test_means_over_instances_are_covered_or_have_no_interval():
    rows = list(simulated.over_instances(REPETITIONS, counts=(128,)))
    assert len(rows) == len(simulated.OF_INSTANCES)
    for row in rows:
        assert row.wrong <= at_most(0.055), row
        carried = row.regime.endswith("not 0")
        assert row.shown >= (0.1 if carried else 0.8), row
        assert carried or row.covered <= 0.975 + 4 * row.se, row


def test_shares_that_hardly_differ_are_covered():
    rows = list(simulated.of_shares(REPETITIONS, counts=(64,)))
    assert len(rows) == 3
    for row in rows:
        assert row.wrong <= at_most(MISSED), row
        assert row.shown == 1, row


def test_means_over_five_seeds_are_covered_where_their_range_is_known_or_they_are_normal():
    rows = [
        row
        for row in simulated.over_seeds_rows(REPETITIONS, counts=(5,))
        if row.statistic == "mean" and not row.regime.endswith(UNCOVERED)
    ]
    assert len(rows) == len(simulated.OF_SEEDS) - len(UNCOVERED)
    for row in rows:
        assert row.wrong <= at_most(MISSED), row
        assert row.covered <= 0.975 + 4 * row.se, row


def test_what_nothing_tells_of_five_seeds_is_not_covered():
    """The limits that the method page states: a rare failure that no seed shows."""
    rows = {
        row.regime.removeprefix("5 seeds, "): row
        for row in simulated.over_seeds_rows(REPETITIONS, counts=(5,))
        if row.statistic == "mean, none apart"
    }
    for regime in UNCOVERED:
        assert rows[regime].wrong >= 0.1, rows[regime]


def test_seeds_are_named_as_apart_as_often_as_said():
    rows = {row.regime: row for row in simulated.seeds_apart(REPETITIONS, counts=(3, 5))}
    for count, power in ((3, 0.14), (5, 0.77)):
        alarm, found = rows[f"{count} seeds, normal"], rows[f"{count} seeds, one 8 sd off"]
        assert alarm.covered <= at_most(alarm.nominal), alarm
        assert abs(found.covered - power) <= 4 * math.sqrt(power * (1 - power) / REPETITIONS)


def test_robust_statistics_are_covered():
    rows = list(simulated.of_gaps(500, effects=(0.0, 0.5)))
    withheld = [row for row in rows if row.shown == 0]
    assert {(row.regime[0], row.statistic) for row in withheld} == {("1", "p99")}
    for row in rows:
        assert row.wrong <= at_most(MISSED, 500), row
        assert row in withheld or row.covered <= 0.97 + 4 * row.se, row


def test_the_probability_of_improvement_is_covered_up_to_its_ends():
    rows = list(simulated.of_wins(REPETITIONS, chances=(0.5, 0.8, 0.994), effects=(0.0, 0.3)))
    assert len(rows) == 9
    for row in rows:
        assert row.wrong <= at_most(MISSED), row


def test_the_probability_of_improvement_is_covered_where_a_rare_seed_loses():
    rows = list(simulated.of_rare_losses(REPETITIONS))
    assert len(rows) == 6
    for row in rows:
        assert row.shown == 1, row
        assert row.wrong <= at_most(MISSED), row


def test_winners_are_named_by_chance_no_more_often_than_said():
    """Of rows whose seeds are bell-shaped; where one has another shape, as a list itself says."""
    for row in simulated.of_winners(300):
        alike = row.regime.endswith("2 K")
        assert row.covered <= at_most(row.nominal if alike else 0.13, 300), row


def test_seeds_alone_make_two_runs_seldom_better_or_worse():
    rows = list(simulated.of_other_seeds(400))
    assert len(rows) == 20
    for row in rows:
        assert row.covered <= at_most(row.nominal, 400), row
    assert all(row.covered == 0 for row in rows if " 3 seeds" in row.regime)
    assert any(row.covered > 0.02 for row in rows)
