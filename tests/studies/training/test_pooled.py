"""The training study: pooled over seeds by intervals that cover, compared in pairs."""

import csv
import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from maxk_lab.report.document import compact
from maxk_lab.report.formats.render import FORMATS, render
from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.seeds.over_seeds import over_seeds
from maxk_lab.studies.training.row import biasing
from maxk_lab.training.settings import StepSettings


def report(lab, cells, lost=(), **how):
    """The summary of these training cells; those whose id is in `lost` failed."""
    records = [
        lab.training_record(cell, status="failed" if cell["id"] in lost else "done", **how)
        for cell in cells
    ]
    return summarise_records(cells, records, name="trained")


@pytest.fixture(scope="module")
def plain(lab):
    """Three finished rows of three seeds."""
    cells = lab.training_cells()
    return SimpleNamespace(cells=cells, summary=report(lab, cells))


def row_of(summary, **axes):
    """The one row whose key has these values."""
    (found,) = (
        r
        for r in summary.studies["training"].rows
        if all(getattr(r.key, axis) == v for axis, v in axes.items())
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_interval_over_seeds_covers(seeds):
    draws = np.random.default_rng(seeds).normal(1.5, 0.3, (4000, seeds))
    found = [over_seeds(list(values), 0.95) for values in draws]
    hits = np.mean([one.low <= 1.5 <= one.high for one in found])
    assert abs(hits - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


@pytest.mark.slow
def test_the_intervals_of_a_report_cover_what_was_put_in(lab):
    """One study per row of seeds: its final Max@8 and its difference, both against the truth."""
    hits = np.zeros(2)
    of = 60
    for study in range(of):
        cells = lab.training_cells(seeds=range(4 * study, 4 * study + 4))
        row = row_of(report(lab, cells), baseline="subloo")
        gap = lab.final_value({"k": 8}, 8) - lab.final_value({"k": 1}, 8)
        for i, (interval, truth) in enumerate(
            ((row.final(8), lab.final_value({"k": 8}, 8)), (row.differences[8], gap))
        ):
            hits[i] += interval.low <= truth <= interval.high
    # Binomial: below 51 of 60 has probability 6e-4 at coverage 0.95.
    assert (hits >= 51).all()
    assert hits.sum() < 2 * of, "an interval that always covers is too wide"


def test_a_row_pools_the_seeds(plain, lab):
    row = row_of(plain.summary, baseline="subloo")
    own = [lab.training_record(cell) for cell in plain.cells if cell["baseline"] == "subloo"]
    assert row.finished == (0, 1, 2)
    assert (row.steps, row.rollouts, row.ks) == (100, 6400, (1, 2, 4, 8, 16))
    for k in range(1, 17):
        values = [record.metrics["final"]["value"][k - 1] for record in own]
        assert row.final(k) == over_seeds(values, 0.95)
    assert row.final(0) is row.final(17) is None
    assert [(e.step, e.rollouts, e.seconds) for e in row.evaluations] == [
        (0, 0, 0.0),
        (50, 3200, 5.0),
        (100, 6400, 8.0),
    ]
    assert row.evaluations[1].values[4] == over_seeds(
        [record.metrics["evaluations"]["value"][1][2] for record in own], 0.95
    )


def test_differences_are_paired_by_seed(plain):
    row, reference = row_of(plain.summary, baseline="subloo"), row_of(plain.summary, k=1)
    assert row.compared_with == reference.key.path == "training/reinforce/centred/n8/k1"
    assert reference.differences == {}
    gap = row.differences[8]
    assert gap.value == pytest.approx(row.final(8).value - reference.final(8).value)
    # What the seeds share is ten times their own noise.
    assert gap.width < 0.3 * row.final(8).width


def test_rows_are_compared_within_their_n(lab):
    points = [("maxk", "none", n, 4) for n in (8, 16)] + [("reinforce", "none", 16, 1)]
    summary = report(lab, lab.training_cells(points=points))
    assert {row.key.path: row.compared_with for row in summary.studies["training"].rows} == {
        "training/maxk/none/n8/k4": "",
        "training/reinforce/none/n16/k1": "",
        "training/maxk/none/n16/k4": "training/reinforce/none/n16/k1",
    }


def test_a_row_without_all_its_seeds_is_not_averaged(lab):
    cells = lab.training_cells()
    lost = next(c["id"] for c in cells if c["k"] == 1 and c["seed"] == 2)
    summary = report(lab, cells, lost=[lost])
    row = row_of(summary, k=1)
    assert (row.finished, row.curve, row.evaluations) == ((0, 1), (), ())
    other = row_of(summary, baseline="subloo")
    assert other.final(8).low < other.final(8).high
    assert math.isnan(other.differences[8].value)
    assert "2 of 3 seeds finished" in other.differences[8].reason
    (failure,) = summary.failed
    assert (failure.cell, failure.path, failure.seed) == (lost, row.key.path, 2)
    assert failure.error == "FloatingPointError: loss at step 3"


def test_cells_without_a_record_are_missing(lab):
    cells = lab.training_cells()
    records = [lab.training_record(cell) for cell in cells if cell["seed"] < 2]
    summary = summarise_records(cells, records, name="young")
    assert len(summary.missing) == 3
    assert not any(row.curve for row in summary.studies["training"].rows)
    text = render(summary, "terminal", width=200)
    assert (
        "not finished: training/maxk/subloo/n8/k8 seed 2 (cell training-maxk-subloo-8-8-2)" in text
    )


@pytest.mark.slow
def test_one_seed_has_intervals_over_instances(lab):
    cells = lab.training_cells(seeds=(4,))
    summary = report(lab, cells)
    row = row_of(summary, baseline="subloo")
    final = lab.training_record(next(c for c in cells if c["baseline"] == "subloo")).metrics[
        "final"
    ]
    assert row.final(3).low == final["low"][2]
    assert row.evaluations[2].values[2].high == pytest.approx(
        row.evaluations[2].values[2].value + 0.02
    )
    truth = lab.final_value({"k": 8}, 8) - lab.final_value({"k": 1}, 8)
    gap = row.differences[8]
    assert gap.low < truth < gap.high
    assert gap.width < 0.05, (
        "paired by instance: the spread between instances is ten times that of the differences"
    )


def test_seeds_that_were_trained_differently_are_not_pooled(lab):
    cells = lab.training_cells()
    records = [lab.training_record(cell) for cell in cells]
    records[0].metrics["steps"] = 50
    row = row_of(summarise_records(cells, records, name="mixed"), k=1)
    assert row.curve == ()
    assert "trained or evaluated in different ways" in row.reason


def test_an_undefined_value_has_its_reason(lab):
    cells = lab.training_cells()
    records = [lab.training_record(cell) for cell in cells]
    records[-1].metrics["final"]["value"][3] = None
    summary = summarise_records(cells, records, name="holes")
    row = row_of(summary, baseline="subloo")
    assert math.isnan(row.final(4).value)
    assert not math.isnan(row.final(8).value)
    for found in (row.final(4), row.differences[4]):
        assert found.reason == "not defined in every seed"


@pytest.mark.slow
def test_every_format_has_the_same_numbers(plain):
    row = row_of(plain.summary, baseline="subloo")
    for format in ("markdown", "latex"):
        text = render(plain.summary, format)
        assert compact(row.final(8)) in text
        assert compact(row.differences[8]) in text
    for found in (row.final(8), row.differences[8]):
        assert compact(found) in render(plain.summary, "terminal", width=200)
    (in_json,) = (
        r
        for r in json.loads(render(plain.summary, "json"))["training"]
        if r["baseline"] == "subloo"
    )
    lines = list(csv.DictReader(io.StringIO(render(plain.summary, "csv"))))
    (in_csv,) = (line for line in lines if line["baseline"] == "subloo")
    assert in_csv["section"] == "training"
    for name, found in (("max@8", row.final(8)), ("difference@8", row.differences[8])):
        for ending, value in (("", found.value), ("_low", found.low), ("_high", found.high)):
            assert in_json[f"{name}{ending}"] == float(in_csv[f"{name}{ending}"]) == value
    assert in_json["reference"] == "training/reinforce/centred/n8/k1"
    assert [(e["step"], e["k"]) for e in in_json["evaluations"]][:6] == [
        (0, 1),
        (0, 2),
        (0, 4),
        (0, 8),
        (0, 16),
        (50, 1),
    ]


def test_a_study_without_any_record(lab):
    empty = summarise_records(lab.training_cells(), [], name="empty")
    for format in FORMATS:
        assert render(empty, format)
    assert {row["complete"] for row in json.loads(render(empty, "json"))["training"]} == {False}


def test_a_biased_pair_and_the_settings_that_bias_it(lab):
    cells = lab.training_cells(points=[("reinforce", "group_mean", 8, 1)], inner_epochs=2)
    (row,) = report(lab, cells).studies["training"].rows
    assert (row.derived, row.attributes["bent_by"]) == ("biased", "inner_epochs above 1")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, []),
        (
            {
                "loss": {"aggregation": "seq_sum"},
                "weight_normalization": "none",
                "truncated": "keep",
            },
            [],
        ),
        ({"loss": {"aggregation": "token_mean"}}, ["aggregation token_mean"]),
        ({"loss": {"aggregation": "fixed"}}, []),  # a constant factor
        ({"weight_normalization": "zscore"}, ["weight_normalization zscore"]),
        (
            {"normalize_advantages": True, "min_gap_scale": 0.1},
            ["normalize_advantages", "min_gap_scale"],
        ),
        ({"truncated": "mask_loss"}, ["truncated mask_loss"]),
        (
            {"max_grad_norm": 1.0},
            ["max_grad_norm 1.0"],
        ),  # the clipped mean is not the mean of the clipped
        ({"max_grad_norm": None}, []),
    ],
)
def test_settings_that_bias(settings, said):
    assert biasing(StepSettings.model_validate(settings)) == said
