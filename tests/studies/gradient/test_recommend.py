"""Recommendations: candidates ranked by SNR per rollout, with paired intervals and honest ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.row.ranking import ranked

Rows = Callable[..., tuple[Any, ...]]


@pytest.fixture
def rows(lab: Any) -> Rows:
    def build(**settings: Any) -> tuple[Any, ...]:
        cells = lab.cells(**settings)
        return (
            summarise_records(cells, [lab.record(cell) for cell in cells], name="s")
            .studies["gradient"]
            .rows
        )

    return build


def snr(row: Any) -> float:
    """Of the pooled units, seeds weighing the same."""
    units: Units = row.units
    m2, u = (np.mean([x[m].mean() for m in units.members()]) for x in (units.m2, units.mean_square))
    return float(u / (m2 - u))


@pytest.mark.slow
def test_the_best_has_the_highest_snr_per_rollout_and_all_are_ranked_by_it(rows: Rows) -> None:
    found = rows(ks=(2,))
    answer = ranked(found, objective_name="max@2", budget=64)
    per_rollout = [snr(one.row) / one.row.key.n for one in answer.candidates]
    assert per_rollout == sorted(per_rollout, reverse=True)
    assert answer.best.against_best is None
    for one in answer.candidates:
        assert one.groups == 64 // one.row.key.n
        assert one.step_snr.value == pytest.approx(one.groups * snr(one.row))
    for one in answer.candidates[1:]:
        assert one.against_best is not None
        expected = snr(one.row) / one.row.key.n / per_rollout[0]
        assert one.against_best.value == pytest.approx(expected, rel=1e-9)
        assert one.against_best.low <= expected <= one.against_best.high


def test_a_candidate_far_below_is_told_apart_and_a_twin_is_not(rows: Rows) -> None:
    found = rows(baselines=("centred", "sample_loo"), ns=(8,), ks=(2,))
    answer = ranked(found, objective_name="max@2", budget=8)
    assert [one.row.key.baseline for one in answer.candidates] == ["centred", "sample_loo"]
    assert answer.candidates[1].told_apart
    assert answer.ties == ()
    twins = ranked((*found, *found[:1]), objective_name="max@2", budget=8)
    assert [one.row.key.baseline for one in twins.ties] == ["centred"]


def test_only_rows_of_the_objective_and_of_a_divisor_of_the_budget_compete(rows: Rows) -> None:
    found = rows(baselines=("centred",), ns=(8, 16), ks=(2, 4))
    answer = ranked(found, objective_name="max@4", budget=24)
    assert [(one.row.key.n, one.row.key.k) for one in answer.candidates] == [(8, 4)]
    assert [(row.key.n, reason) for row, reason in answer.left_out] == [
        (16, "n = 16 does not divide 24")
    ]


def test_biased_rows_compete_only_when_asked(rows: Rows) -> None:
    found = rows(baselines=("centred", "group_mean"), ns=(8,), ks=(2,))
    answer = ranked(found, objective_name="max@2", budget=8)
    assert [one.row.key.baseline for one in answer.candidates] == ["centred"]
    assert [reason for _, reason in answer.left_out] == ["derived biased"]
    asked = ranked(found, objective_name="max@2", budget=8, biased=True)
    assert len(asked.candidates) == 2


def test_an_incomplete_row_is_left_out_with_its_reason(lab: Any) -> None:
    cells = lab.cells(baselines=("centred", "subloo"), ns=(8,), ks=(2,))
    records = [
        lab.record(cell) for cell in cells if (cell["baseline"], cell["seed"]) != ("subloo", 1)
    ]
    answer = ranked(
        summarise_records(cells, records, name="s").studies["gradient"].rows,
        objective_name="max@2",
        budget=8,
    )
    assert [one.row.key.baseline for one in answer.candidates] == ["centred"]
    assert [reason for _, reason in answer.left_out] == ["incomplete: 1 of 2 seeds finished"]


def test_nothing_to_rank_is_no_recommendation(rows: Rows) -> None:
    answer = ranked(rows(baselines=("group_mean",)), objective_name="max@2", budget=64)
    assert answer.candidates == ()
    assert len(answer.left_out) == 2


def test_a_cross_fit_needs_a_second_group_in_the_step(lab: Any) -> None:
    cells = [
        cell | {"baseline": "affine[cross_fit]"}
        for cell in lab.cells(baselines=("centred",), ks=(2,))
    ]
    records = [lab.record(cell, noise=1.0) for cell in cells]
    rows = summarise_records(cells, records, name="s").studies["gradient"].rows
    answer = ranked(rows, objective_name="max@2", budget=16)
    assert [one.row.key.n for one in answer.candidates] == [8]
    reason = "its coefficients come from other groups, and 16 rollouts make one of n = 16"
    assert [(row.key.n, why) for row, why in answer.left_out] == [(16, reason)]


def test_what_has_no_paired_ratio_is_compared_by_two_intervals(lab: Any) -> None:
    cells = lab.cells(baselines=("centred", "sample_loo"), ns=(8,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        if record.cell["baseline"] == "sample_loo":  # cut into other units, as another n would be
            record.metrics["units"]["stratum"] = [i // 4 for i in range(16)]
    answer = ranked(
        summarise_records(cells, records, name="s").studies["gradient"].rows,
        objective_name="max@2",
        budget=8,
    )
    (worse,) = answer.candidates[1:]
    assert worse.against_best is not None
    assert worse.against_best.reason.startswith(
        "unpaired: the two rest on different resampling units"
    )
    expected = snr(worse.row) / snr(answer.best.row)
    assert worse.against_best.value == pytest.approx(expected)
    assert worse.against_best.low <= expected <= worse.against_best.high
    assert worse.told_apart
