"""Recommendations: candidates ranked by the variance of a step, with paired intervals and ties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import golden
import numpy as np
import pytest

from maxk_lab.execution.archive import find_run
from maxk_lab.reports.report import make_report, read_report
from maxk_lab.statistics.estimates import Sample, stratified_mean
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.contests import contests, simplest
from maxk_lab.studies.gradient.recommend import _quotient, ranked


def rows_of(lab: Any, change: Any = None, make: Any = lambda cell: {}, **axes: Any) -> Any:
    """The rows of cells with these axes, each with its record, which was changed."""
    cells = axes.pop("cells", None) or lab.cells(**{"ns": (8,), "ks": (2,)} | axes)
    records = [lab.record(cell, **make(cell)) for cell in cells]
    for record in records if change else ():
        change(record)
    return make_report(cells, records, name="s").studies["gradient"].rows


def asked(rows: Any, budget: int = 8, n: int | None = None) -> Any:
    fitting = [row for row in rows if row.key.objective == "max@2"]
    return ranked(fitting, budget, n)


def variance(row: Any) -> float:
    """Of the pooled units, seeds weighing the same."""
    units: Units = row.units
    return float(stratified_mean((units.m2 - units.mean_square)[None], units.stratum)[0])


def test_intervals_are_those_of_a_step_and_about_new_instances(lab: Any) -> None:
    """Of n (E‖ĝ‖² − ‖∇J‖²), with ‖∇J‖² from the products between instances."""

    def between(record: Any) -> None:
        count = len(record.metrics["units"]["mean_square"])
        record.metrics["cross_products"] = [0.01 * (1 + i % 3) for i in range(count)]

    answer = asked(rows_of(lab, between, ns=(8, 16)), 64)
    assert {one.row.key.n for one in answer.candidates} == {8, 16}
    assert answer.no_between == ""

    def step(row: Any) -> float:
        square = stratified_mean(row.units.between_instances()[0][None], row.units.stratum)[0]
        m2 = stratified_mean(row.units.m2[None], row.units.stratum)[0]
        return float(row.key.n * (m2 - square))

    best = answer.best.row
    assert answer.best.over_best is None
    for one in answer.candidates:
        assert one.groups == 64 // one.row.key.n
        assert one.step_snr.low <= one.step_snr.value <= one.step_snr.high
    for one in answer.candidates[1:]:
        expected = step(one.row) / step(best)
        assert one.over_best is not None
        assert one.over_best.value == pytest.approx(expected, rel=1e-9)
        assert one.over_best.low <= expected <= one.over_best.high
        assert one.over_best.question == NEW
    steps = [step(one.row) for one in answer.candidates]
    assert steps == sorted(steps)


def test_a_candidate_far_below_is_significantly_worse_and_a_twin_is_not(lab: Any) -> None:
    found = rows_of(lab, baselines=("centred", "sample_loo"))
    answer = asked(found)
    assert [one.row.key.baseline for one in answer.candidates] == ["centred", "sample_loo"]
    assert answer.candidates[1].worse
    assert answer.ties == ()
    twins = asked((*found, *found[:1]))
    assert [one.row.key.baseline for one in twins.ties] == ["centred"]


def test_only_rows_that_answer_the_question_compete(lab: Any) -> None:
    """Of its objective, complete, derived unbiased, and of an n that divides the budget."""
    cells = lab.cells(baselines=("centred", "group_mean", "subloo"), ks=(2, 4))
    cells += [
        cell | {"id": f"fitted-{cell['id']}", "baseline": "affine[cross_fit]"}
        for cell in lab.cells(baselines=("centred",), ns=(16,), ks=(2,))
    ]
    found = rows_of(
        lab,
        make=lambda cell: {
            "noise": 1.0,
            "status": "failed" if (cell["baseline"], cell["seed"]) == ("subloo", 1) else "done",
        },
        cells=cells,
    )

    def left_out(budget: int, n: int) -> tuple[list[str], dict[tuple[str, int], str]]:
        answer = asked(found, budget, n)
        names = [f"{one.row.key.baseline} {one.row.key.n}" for one in answer.candidates]
        return names, {(row.key.baseline, row.key.n): why for row, why in answer.left_out}

    lost = "incomplete: 1 of 2 seeds finished"
    names, reasons = left_out(16, 16)
    assert names == ["centred 16"]
    assert reasons == {
        ("affine[cross_fit]", 16): "fitted to gradients: no training can use it",
        ("group_mean", 16): "derived biased",
        ("subloo", 16): lost,
    }
    names, reasons = left_out(24, 16)
    assert names == []
    assert reasons["centred", 16] == "n = 16 does not divide 24"
    nothing = asked(found, 7)
    assert (nothing.candidates, nothing.use) == ((), None)


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("noise", "used"),
    [
        # Of two that tie the first in the catalogue.
        ({"subloo": 1.0, "centred": 1.0}, "centred"),
        # A fitted baseline is no candidate, also where it has the lowest variance.
        ({"affine[cross_fit]": 1.0, "centred": 0.98, "none": 30.0}, "centred"),
    ],
)
def test_what_is_used_does_not_rest_on_the_order_of_the_rows(
    lab: Any, noise: dict[str, float], used: str, turn: int
) -> None:
    first, *_ = lab.cells(baselines=("centred",), ns=(8,), ks=(2,), seeds=(0,))
    cells = [
        first | {"id": f"{baseline}-{seed}", "baseline": baseline, "seed": seed}
        for baseline in noise
        for seed in (0, 1)
    ]
    rows = rows_of(lab, make=lambda cell: {"noise": noise[cell["baseline"]]}, cells=cells)
    answer = asked(rows[::turn], 16)
    assert answer.use is not None
    assert answer.use.row.key.baseline == used
    (contest,) = contests(rows)
    tied = {row.key.baseline for row in contest.close}
    assert len(tied) == 2
    assert answer.best.row.key.baseline in tied
    assert all(one.row.key.method.fit is None for one in answer.candidates)


def test_what_ties_in_a_report_is_not_significantly_worse(lab: Any) -> None:
    """A report is corrected for more comparisons, and asks for more than an interval."""
    noise = {"centred": 1.0, "subloo": 1.3}
    rows = rows_of(
        lab, make=lambda cell: {"noise": noise[cell["baseline"]]}, baselines=tuple(noise)
    )
    (best, other) = asked(rows).candidates
    line = other.row.over_least.line
    for verdict, fixed in (("worse", False), ("tied", True), ("tied", False), ("open", False)):
        over = replace(other.row.over_least, line=replace(line, verdict=verdict, fixed=fixed))
        (_, found) = asked((best.row, replace(other.row, over_least=over))).candidates
        assert found.over_best is not None
        assert found.over_best.low > 1
        assert found.worse == ((verdict, fixed) != ("tied", False))


def test_what_has_no_paired_ratio_is_compared_by_two_intervals(lab: Any) -> None:
    how = {"sample_loo": {"make": lab.exact}, "centred": {"noise": 0.5}}
    answer = asked(rows_of(lab, make=lambda cell: how[cell["baseline"]], baselines=tuple(how)))
    (worse,) = answer.candidates[1:]
    assert worse.row.key.baseline == "sample_loo"
    assert worse.over_best is not None
    assert worse.over_best.reason.startswith("unpaired: one was enumerated and one sampled")
    assert worse.over_best.question == NEW
    expected = variance(worse.row) / variance(answer.best.row)
    assert worse.over_best.value == pytest.approx(expected)
    assert worse.over_best.low <= expected <= worse.over_best.high
    assert worse.worse


@pytest.mark.parametrize("alike", [True, False])
def test_the_answer_is_about_these_instances_where_few_carry_it(lab: Any, alike: bool) -> None:
    """With one instance that holds nearly all there is no telling of others, paired or not."""

    def heavier(record: Any) -> None:
        if alike or record.cell["baseline"] == "sample_loo":
            units, within = record.metrics["units"], record.metrics["within"]
            units["m2"][3] *= 1000
            within["m2"][3] = [1000 * far for far in within["m2"][3]]

    answer = asked(rows_of(lab, heavier, baselines=("centred", "sample_loo"), seeds=(0,)))
    assert [one.row.key.baseline for one in answer.candidates] == ["centred", "sample_loo"]
    worse = answer.candidates[1]
    assert worse.over_best is not None
    assert worse.over_best.question == FIXED
    assert "of 16 instances carry the mean" in worse.over_best.reason
    assert worse.worse


@pytest.mark.parametrize(("seed", "shown"), [(30, False), (51, False), (44, True)])
def test_an_interval_that_rejects_no_value_is_withheld(seed: int, shown: bool) -> None:
    """Seeds have the ends −∞ and ∞, −.26 and ∞, .41 and ∞."""
    values = np.exp(0.8 * np.random.default_rng(seed).standard_normal((2, 2, 16))[1]) - 0.3
    sample = Sample(values, np.full((2, 16, 2), np.nan), np.zeros(16, int))
    found = _quotient(sample, (1.0, 0.0), (0.0, 1.0), 0.993)
    assert found.value == pytest.approx(values[0].mean() / values[1].mean())
    assert found.defined == shown
    assert ("16 instances reject no value" in found.reason) != shown
    assert not shown or (found.low > 0.4 and found.high == np.inf)


@pytest.mark.slow
def test_a_recommendation_and_the_report_name_the_same_of_a_tie() -> None:
    """At one n, where both ask the same, they cannot disagree: golden records, every contest."""
    rows = read_report(find_run(golden.bundle_of("tsp_sweep"))).studies["gradient"].rows
    compared = [each for each in contests(rows) if each.least and not each.all_equal]
    assert len(compared) > 5
    plainer = 0
    for contest in compared:
        key = contest.rows[0].key
        answer = ranked(contest.rows, 64 * key.n)
        reported = simplest(contest.close)
        assert answer.use is not None
        assert answer.use.row.key == reported.key
        tied = [row.key.baseline for row in contest.close]
        assert reported.key.baseline in tied
        plainer += reported.key != answer.best.row.key
    assert plainer > 0
