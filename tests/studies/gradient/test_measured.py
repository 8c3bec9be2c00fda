"""Measures that only some studies have: shown there, with an interval or marked exact."""

import csv
import io
import json
import re

import numpy as np
import pytest

from maxk_lab.report.document import compact
from maxk_lab.report.formats.render import FORMATS, render
from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.studies.gradient.pool import ALWAYS, ANATOMY, OF_RATIOS, OF_WEIGHTS

BASELINES = ("none", "group_mean", "centred", "subloo", "affine[oracle]", "joint_optimum")


def scaled(cell):
    """How a measured record of the cell is made: unbiased but for the group mean."""
    return {"scale": 1 - cell["k"] / cell["n"] if cell["baseline"] == "group_mean" else 1.0}


@pytest.fixture(scope="module")
def summary(lab):
    """An enumerated study with the best possible baseline."""
    cells = lab.cells(baselines=BASELINES, ns=(8,), ks=(2, 4))
    return summarise_records(
        cells, [lab.record(c, make=lab.measured, **scaled(c)) for c in cells], name="measured"
    )


def row_of(summary, baseline, k=2):
    """The row of a baseline."""
    (found,) = (
        row
        for row in summary.studies["gradient"].rows
        if (row.key.baseline, row.key.k) == (baseline, k)
    )
    return found


@pytest.mark.slow
def test_the_measures_of_the_weights_have_intervals(summary):
    row = row_of(summary, "centred")
    assert tuple(row.intervals) == (*ALWAYS, *OF_WEIGHTS)
    for name in OF_WEIGHTS:
        found = row.intervals[name]
        assert found.low < found.value < found.high
        for format in ("terminal", "markdown", "latex"):
            assert compact(found) in render(summary, format, width=160)
    # Undefined on the first instance of each seed, and the mean of the others.
    assert row.intervals["weight_concentration"].value == pytest.approx(0.3, rel=0.1)


def test_the_anatomy_is_that_put_in_and_sums_to_the_variance(summary, lab):
    for row in summary.studies["gradient"].rows:
        total = row.intervals["variance"].value
        assert tuple(row.anatomy) == ANATOMY
        assert sum(row.anatomy.values()) == pytest.approx(total, rel=1e-12)
        assert {n: v / total for n, v in row.anatomy.items()} == pytest.approx(lab.shares, rel=1e-9)
    assert "Anatomy: TSP" in render(summary, "terminal", width=160)


def test_flat_records_carry_them(summary):
    in_json = json.loads(render(summary, "json"))["gradient"]
    in_csv = list(csv.DictReader(io.StringIO(render(summary, "csv"))))
    for record, line in zip(in_json, in_csv, strict=True):
        row = row_of(summary, record["baseline"], record["k"])
        assert record["dead_gradient_rate"] == row.intervals["dead_gradient_rate"].value
        assert (
            record["variance_cross"]
            == float(line["variance_cross"])
            == row.anatomy["variance_cross"]
        )
        assert record["value_variance_low"] == float(line["value_variance_low"])


def test_over_the_best_possible_is_the_paired_ratio_to_the_joint_optimum(summary):
    best = row_of(summary, "joint_optimum")
    for name, ratio in (
        ("centred", 2.0),
        ("none", 60.0),
        ("affine[oracle]", 1.2),
        ("joint_optimum", 1.0),
    ):
        found = row_of(summary, name).over_best
        assert found.value == pytest.approx(ratio, rel=1e-9)
        logs = log_ratio(row_of(summary, name).units, best.units)
        assert (found.low, found.high) == pytest.approx((np.exp(logs.low), np.exp(logs.high)))
    assert row_of(summary, "group_mean").over_best is None, (
        "a shrunk gradient is not compared with a right one"
    )
    record = next(
        r for r in json.loads(render(summary, "json"))["gradient"] if r["baseline"] == "none"
    )
    assert record["over_best"] == pytest.approx(60.0)


def test_an_oracle_is_never_the_best_baseline(summary):
    """It would always be, and no training can have it."""
    assert {row.key.baseline for row in summary.studies["gradient"].rows if row.best} == {"subloo"}


@pytest.mark.slow
def test_nothing_is_said_of_what_was_not_measured(lab):
    cells = lab.cells(ns=(8,), ks=(2,))
    old = summarise_records(cells, [lab.record(cell) for cell in cells], name="old")
    for row in old.studies["gradient"].rows:
        assert tuple(row.intervals) == ALWAYS
        assert not row.anatomy
        assert row.over_best is None
    for format in FORMATS:
        text = render(old, format)
        for word in ("not measured", "concentration", "cross terms", "best possible", "ESS"):
            assert not re.search(rf"\b{word}\b", text), (format, word)


def test_a_row_that_lacks_what_others_have_is_empty_there_and_no_undefined_value(lab):
    cells = lab.cells(baselines=("none", "centred"), ns=(8,), ks=(2,))
    make = {"none": lab.exact, "centred": lab.measured}
    summary = summarise_records(
        cells, [lab.record(c, make=make[c["baseline"]]) for c in cells], name="half"
    )
    text = render(summary, "terminal", width=140)
    assert "Undefined" not in text
    weights = text.split("Weights: ")[1].split("dead gradients:")[0]
    assert "centred" in weights
    assert "none" not in weights
    assert '"undefined": {}' in render(summary, "json")


def test_ratios_have_a_sheet_where_the_trajectories_are_of_another_policy(lab):
    cells = [
        cell | {"behaviour": {"distance": 0.3}}
        for cell in lab.cells(baselines=("none",), ns=(8,), ks=(2,))
    ]
    summary = summarise_records(
        cells, [lab.record(c, make=lab.measured) for c in cells], name="off"
    )
    (row,) = summary.studies["gradient"].rows
    assert set(OF_RATIOS) < set(row.intervals)
    assert row.key.setting == (("behaviour.distance", 0.3),)
    assert not row.catalogued_unbiased, "maxk is for trajectories of the policy itself"
    sheet = render(summary, "terminal").split("Ratios: ")[1]
    assert "0.800 [0.800, 0.800]" in sheet


def test_at_no_distance_the_ratios_are_exactly_one(lab):
    cells = [
        cell | {"setting": {"behaviour.distance": 0.0}}
        for cell in lab.cells(baselines=("none",), ns=(8,), ks=(2,))
    ]
    (row,) = (
        summarise_records(cells, [lab.record(c) for c in cells], name="on").studies["gradient"].rows
    )
    found = {name: (row.intervals[name].low, row.intervals[name].high) for name in OF_RATIOS}
    assert found == {"effective_sample_size": (1.0, 1.0), "kl": (0.0, 0.0), "ratio_std": (0.0, 0.0)}
