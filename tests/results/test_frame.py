"""Runs as tidy tables: the numbers of the report, and the state of every other cell."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
from compared_runs import measured
from stored import damage, forget

import maxk_lab
from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.document import compact
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report, read_report
from maxk_lab.reports.tables import NUMBER


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder of a run that no test changes."""
    return measured(tmp_path_factory.mktemp("loaded") / "sweep").root


@pytest.fixture(scope="module")
def report(lab):
    """A report on every kind of study, with a row that lacks a seed."""
    gradient = lab.cells(baselines=("none", "centred", "subloo"), ns=(8,), stages=(0, 50))
    training, weights = lab.training_cells(), lab.weights_cells()
    objective = lab.objective_cells()
    records = [lab.record(cell) for cell in gradient]
    records += [lab.training_record(cell) for cell in training[1:]]
    records += [lab.done(cell, lab.weighed()) for cell in weights]
    records += [lab.done(cell, lab.curve(0.5)) for cell in objective]
    return make_report([*gradient, *training, *weights, *objective], records, name="it")


def test_every_format_has_the_numbers_of_the_table_to_the_last_digit(report):
    frame = report.tables.estimates
    numbers = frame[frame.value.notna()]
    assert {*numbers.study} == {"gradient", "training", "weights", "objective"}
    by_row = {
        (line["study"], line["row"]): line
        for line in csv.DictReader(io.StringIO(rendered(report, "csv")))
    }
    by_measure = {
        (line["study"], line["row"], line["measure"]): line
        for line in json.loads(rendered(report, "json"))["estimates"]
    }
    for number in numbers.to_dict("records"):
        place, measure = (number["study"], number["row"]), number["measure"]
        in_csv, in_json = by_row[place], by_measure[*place, measure]
        assert in_json["value"] == float(in_csv[measure]) == number["value"]
        for end in ("low", "high") if number["about"] != "exact" else ():
            text = in_csv[f"{measure}_{end}"]
            assert float(text) == number[end] if text else math.isnan(number[end])
    variance = compact(report.studies["gradient"].rows[0].intervals["variance"])
    assert variance in rendered(report, "markdown")
    assert variance in rendered(report, "terminal", width=200, full=True)
    (line,) = frame[frame.status == "incomplete"].to_dict("records")
    assert line["seeds_finished"] == 2
    assert line["reason"] == "incomplete: 2 of 3 seeds finished"
    assert math.isnan(line["value"])
    # Whole numbers stay whole in a table with missing values.
    assert {str(frame[axis].dtype) for axis in ("n", "k", "stage")} == {"Int64"}
    assert frame[frame.study == "training"].stage.isna().all()


def test_a_cell_has_the_numbers_of_a_report_on_its_seed_alone(undisturbed):
    frame = maxk_lab.load(undisturbed)
    run = RunDirectory(undisturbed)
    spec = run.spec()
    alone = read_report(run, make_plan(spec.model_copy(update={"seeds": (1,)}))).tables.estimates
    # A proxy is no number of a cell.
    columns = [name for name in frame if name in alone]
    assert {*NUMBER} < {*columns}
    tables = [
        table[columns].sort_values(["study", "row", "measure"], ignore_index=True)
        for table in (frame[frame.seed == 1], alone[alone.proxy.isna()])
    ]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert set(frame.status) == {"done"}
    assert list(dict.fromkeys(frame.cell)) == [cell.id for cell in make_plan(spec).cells]
    with_ends = frame[frame.low.notna()]
    assert (with_ends.about != "").all()
    assert set(with_ends[with_ends.study == "weights"].about) == {"exact"}


def test_a_cell_without_a_result_is_a_line_with_its_state(undisturbed, tmp_path):
    root = tmp_path / "torn"
    shutil.copytree(undisturbed, root)
    run = RunDirectory(root)
    missing, unreadable, failed = run.ids()[:3]
    error = "Traceback\nValueError: no"
    run.write(replace(run.read(failed), status="failed", metrics=None, error=error))
    forget(root, missing)
    damage(root, unreadable)
    with pytest.warns(maxk_lab.LabWarning, match=r"jsonl:\d+: unreadable record: its checksum"):
        frame = maxk_lab.load([undisturbed, root])
    assert list(frame.columns[:2]) == ["run", "study"]
    assert set(frame.run) == {"run", "torn"}
    without = frame[frame.status != "done"].set_index("cell")
    states = {missing: "missing", unreadable: "missing", failed: "failed"}
    assert without.status.to_dict() == states
    assert without.reason[failed] == "ValueError: no"
    assert without.measure.isna().all()
    assert without.value.isna().all()
    with pytest.warns(maxk_lab.LabWarning, match="unreadable record"):
        assert set(maxk_lab.load(root, failed=False).status) == {"done"}
    twice = maxk_lab.load([str(undisturbed), undisturbed], over="seeds")
    assert set(twice.run) == {str(undisturbed)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"run": "no such"}, "no run"),
        ({"run": []}, "run must be one run or several, got an empty list"),
        ({"over": "seed"}, "over must be one of 'cells', 'seeds', got 'seed'"),
        ({"level": 95}, "level must be a number between 0 and 1"),
        ({"run": 3}, "a run is its name, folder or bundle, got 3"),
    ],
)
def test_a_wrong_argument_is_refused(tmp_path, wrong, message):
    with pytest.raises(LabError, match=message):
        maxk_lab.load(**{"run": "x", "results": tmp_path} | wrong)


def test_load_imports_nothing_heavy_before_its_first_call():
    code = "import sys, maxk_lab; maxk_lab.load; print('load' in dir(maxk_lab), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True ")
    assert {"torch", "pandas", "matplotlib"}.isdisjoint(done.stdout.split())
