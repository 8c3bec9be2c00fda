"""Recommendations: candidates ranked by the variance of a step, with paired intervals and ties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from maxk_lab.reports.recommendation import Question
from maxk_lab.reports.report import make_report
from maxk_lab.statistics.estimates import Sample, stratified_mean
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.studies.gradient.contests import contests, simplest
from maxk_lab.studies.gradient.recommend import answers, ranked, step_quotient


def rows_of(
    lab: Any, make: Any = lambda cell: {}, change: Any = None, cells: Any = None, **axes: Any
) -> Any:
    """The rows of cells with these axes; `make` is how, by cell, and `change` edits a record."""
    cells = cells or lab.cells(**{"ns": (8,), "ks": (2,)} | axes)
    records = [lab.record(cell, **make(cell)) for cell in cells]
    for record in records if change else ():
        change(record)
    return make_report(cells, records, name="s").studies["gradient"].rows


def mean(row: Any, values: Any) -> float:
    """The mean of a number of every unit; seeds have equal weight."""
    return float(stratified_mean(values[None], row.units.stratum)[0])


def names(answer: Any) -> list[str]:
    return [one.row.key.baseline for one in answer.candidates]


def test_intervals_are_those_of_a_step_and_about_new_instances(lab: Any) -> None:
    """Of n (E‖ĝ‖² − ‖∇J‖²), with ‖∇J‖² from the products between instances."""

    def between(record: Any) -> None:
        count = len(record.metrics["units"]["mean_square"])
        record.metrics["cross_products"] = [0.01 * (1 + i % 3) for i in range(count)]

    answer = ranked(rows_of(lab, change=between, ns=(8, 16)), 64, None)
    assert {one.row.key.n for one in answer.candidates} == {8, 16}
    assert (answer.no_between, answer.best.over_best) == ("", None)

    def step(row: Any) -> float:
        return float(row.key.n * mean(row, row.units.m2 - row.units.between_instances()[0]))

    for one in answer.candidates:
        assert one.groups == 64 // one.row.key.n
        assert one.step_snr.low <= one.step_snr.value <= one.step_snr.high
    for one in answer.candidates[1:]:
        expected = step(one.row) / step(answer.best.row)
        assert one.over_best.value == pytest.approx(expected, rel=1e-9)
        assert one.over_best.low <= expected <= one.over_best.high
        assert one.over_best.question == NEW
    steps = [step(one.row) for one in answer.candidates]
    assert steps == sorted(steps)


def test_a_candidate_far_above_the_best_is_significantly_worse_and_a_twin_is_not(lab: Any) -> None:
    rows = rows_of(lab, baselines=("centred", "sample_loo"))
    answer, twins = ranked(rows, 8, None), ranked((*rows, *rows[:1]), 8, None)
    assert names(answer) == ["centred", "sample_loo"]
    assert (answer.candidates[1].worse, answer.ties) == (True, ())
    assert [one.row.key.baseline for one in twins.ties] == ["centred"]


def test_a_candidate_is_complete_derived_unbiased_and_divides_the_budget(lab: Any) -> None:
    cells = lab.cells(baselines=("centred", "group_mean", "subloo"), ns=(8, 16), ks=(2,))
    cells += [
        cell | {"id": f"fitted-{cell['id']}", "baseline": "affine[cross_fit]"}
        for cell in lab.cells(baselines=("centred",), ns=(16,), ks=(2,))
    ]

    def make(cell: Any) -> dict[str, Any]:
        lost = (cell["baseline"], cell["seed"]) == ("subloo", 1)
        return {"noise": 1.0, "status": "failed" if lost else "done"}

    rows = rows_of(lab, make, cells=cells)
    answer = ranked(rows, 16, 16)
    assert names(answer) == ["centred"]
    assert {row.key.baseline: why for row, why in answer.left_out if row.key.n == 16} == {
        "affine[cross_fit]": "fitted to gradients: no training can use it",
        "group_mean": "derived biased",
        "subloo": "incomplete: 1 of 2 seeds finished",
    }
    answer = ranked(rows, 24, 16)
    reasons = {row.key.baseline: why for row, why in answer.left_out}
    assert (names(answer), reasons["centred"]) == ([], "n = 16 does not divide 24")
    nothing = ranked(rows, 7, None)
    assert (nothing.candidates, nothing.use) == ((), None)


def test_with_forced_starts_only_the_gradients_of_the_asked_n_are_ranked(lab: Any) -> None:
    """J_K^starts depends on n, so every n is a gradient of its own."""
    cells = lab.cells(ns=(8, 16), ks=(2,), baselines=("centred", "subloo"))
    for cell in cells:
        cell["setting"] = {"start": "multistart"}
    study = make_report(cells, map(lab.record, cells), name="s").studies["gradient"]
    for n, sizes in ((8, [8]), (None, [8, 16])):
        given = answers(study, Question("max@2", 16, 0, "", n))
        assert [{one.row.key.n for one in answer.candidates} for answer in given] == [
            {size} for size in sizes
        ]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    "noise",
    [
        # Of two that tie, the first in the catalogue is used.
        {"subloo": 1.0, "centred": 1.0},
        # A fitted baseline is no candidate, even with the lowest variance.
        {"affine[cross_fit]": 1.0, "centred": 0.98, "none": 30.0},
        # The used baseline need not be the lowest.
        {"subloo": 0.996, "centred": 1.0, "none": 30.0},
    ],
)
def test_recommendation_and_report_name_the_same_baseline_of_a_tie(
    lab: Any, noise: dict[str, float], turn: int
) -> None:
    """The order of the rows does not matter."""
    cells = lab.cells(baselines=("centred",), ns=(8,), ks=(2,))
    cells = [
        cell | {"id": f"{baseline}-{cell['seed']}", "baseline": baseline}
        for baseline in noise
        for cell in cells
    ]
    rows = rows_of(lab, lambda cell: {"noise": noise[cell["baseline"]]}, cells=cells)
    answer = ranked(rows[::turn], 16, None)
    (contest,) = contests(rows)
    assert answer.use.row.key == simplest(contest.close).key
    assert answer.use.row.key.baseline == "centred"
    tied = {row.key.baseline for row in contest.close}
    assert (len(tied), answer.best.row.key.baseline in tied) == (2, True)
    assert "affine[cross_fit]" not in names(answer)
    assert noise.get("subloo") != 0.99 or names(answer)[0] == "subloo"


def test_a_tie_in_the_report_is_not_significantly_worse(lab: Any) -> None:
    """A report corrects for more comparisons than one interval."""
    noise = {"centred": 1.0, "subloo": 1.3}
    rows = rows_of(lab, lambda cell: {"noise": noise[cell["baseline"]]}, baselines=tuple(noise))
    (best, rival) = ranked(rows, 8, None).candidates
    line = rival.row.over_least.line
    for verdict, fixed in (("worse", False), ("tied", True), ("tied", False), ("open", False)):
        over = replace(rival.row.over_least, line=replace(line, verdict=verdict, fixed=fixed))
        rows = (best.row, replace(rival.row, over_least=over))
        (_, result) = ranked(rows, 8, None).candidates
        assert result.over_best.low > 1
        assert result.worse == ((verdict, fixed) != ("tied", False))


def test_without_a_paired_ratio_two_intervals_are_compared(lab: Any) -> None:
    how = {"sample_loo": {"make": lab.exact}, "centred": {"noise": 0.5}}
    rows = rows_of(lab, lambda cell: how[cell["baseline"]], baselines=tuple(how))
    answer = ranked(rows, 8, None)
    (worse,) = answer.candidates[1:]
    over = worse.over_best
    assert (worse.row.key.baseline, worse.worse, over.question) == ("sample_loo", True, NEW)
    assert over.reason.startswith("unpaired: one was enumerated and one sampled")
    top, bottom = (
        mean(row, row.units.m2 - row.units.mean_square) for row in (worse.row, answer.best.row)
    )
    assert over.value == pytest.approx(top / bottom)
    assert over.low <= top / bottom <= over.high


@pytest.mark.parametrize("alike", [True, False])
def test_the_answer_is_about_the_fixed_instances_if_few_carry_it(lab: Any, alike: bool) -> None:
    """If one instance has nearly all variance, new instances are unknown, paired or not."""

    def heavier(record: Any) -> None:
        if alike or record.cell["baseline"] == "sample_loo":
            units, within = record.metrics["units"], record.metrics["within"]
            units["m2"][3] *= 1000
            within["m2"][3] = [1000 * distance for distance in within["m2"][3]]

    rows = rows_of(lab, change=heavier, baselines=("centred", "sample_loo"), seeds=(0,))
    answer = ranked(rows, 8, None)
    assert names(answer) == ["centred", "sample_loo"]
    worse = answer.candidates[1]
    assert (worse.over_best.question, worse.worse) == (FIXED, True)
    assert "of 16 instances carry the mean" in worse.over_best.reason


@pytest.mark.parametrize(("seed", "shown"), [(30, False), (51, False), (44, True)])
def test_an_interval_that_rejects_no_value_is_withheld(seed: int, shown: bool) -> None:
    """Seeds have the ends −∞ and ∞, −.26 and ∞, .41 and ∞."""
    values = np.exp(0.8 * np.random.default_rng(seed).standard_normal((2, 2, 16))[1]) - 0.3
    sample = Sample(values, np.full((2, 16, 2), np.nan), np.zeros(16, int))
    result = step_quotient(sample, (1.0, 0.0), (0.0, 1.0), 0.993)
    assert result.value == pytest.approx(values[0].mean() / values[1].mean())
    assert (result.defined, "16 instances reject no value" in result.reason) == (shown, not shown)
    assert not shown or (result.low > 0.4 and result.high == np.inf)
