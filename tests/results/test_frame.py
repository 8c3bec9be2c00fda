"""Runs as tidy tables: the very numbers of the report, and what has none."""

from __future__ import annotations

import csv
import io
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from compared_runs import measured
from stored import damage, forget

import maxk_lab
from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report, read_report
from maxk_lab.sweep_file.studies import STUDIES


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder of a run that no test changes."""
    return measured(tmp_path_factory.mktemp("loaded") / "sweep").root


@pytest.fixture(scope="module")
def summary(lab):
    """A report on every kind of study, with a row that lacks a seed."""
    gradient = lab.cells(baselines=("none", "centred", "subloo"), ns=(8,), stages=(0, 50))
    training, weights = lab.training_cells(), lab.weights_cells()
    objective = lab.objective_cells()
    records = [lab.record(cell) for cell in gradient]
    records += [lab.training_record(cell) for cell in training[1:]]
    records += [lab.done(cell, lab.weighed()) for cell in weights]
    records += [lab.done(cell, lab.curve(0.5)) for cell in objective]
    return make_report([*gradient, *training, *weights, *objective], records, name="it")


Numbers = dict[tuple[str, ...], tuple[float, float, float]]


def in_csv(summary) -> Numbers:
    """Every number in the CSV of a report by its place."""
    found = {}
    measures = set(summary.tables.estimates.measure.dropna())
    for line in csv.DictReader(io.StringIO(rendered(summary, "csv"))):
        if line.get("proxy"):
            continue
        kind = STUDIES.get(line["study"])
        for name in (name for name in line if name in measures and line[name]):
            ends = line[name], line.get(f"{name}_low"), line.get(f"{name}_high")
            place = (kind.name, *(line[axis] for axis in kind.axes), name)
            found[place] = tuple(float(end or line[name]) for end in ends)
    return found


def in_frame(frame) -> Numbers:
    """The same in a table."""
    found = {}
    for line in frame[frame.value.notna()].to_dict("records"):
        axes = (str(line[axis]) for axis in STUDIES.get(line["study"]).axes)
        # Where there is no interval, as of two seeds with one value.
        ends = (line["value"] if math.isnan(line[end]) else line[end] for end in ("low", "high"))
        found[line["study"], *axes, line["measure"]] = (line["value"], *ends)
    return found


def test_the_numbers_of_a_report_are_in_its_table_to_the_last_digit(summary):
    told = in_csv(summary)
    assert {study for study, *_ in told} == {"gradient", "training", "weights", "objective"}
    assert in_frame(summary.tables.estimates) == told


def test_a_row_that_lacks_a_seed_has_no_number_and_says_why(summary):
    frame = summary.tables.estimates
    (line,) = frame[frame.status == "incomplete"].to_dict("records")
    assert line["seeds_finished"] == 2
    assert line["reason"] == "incomplete: 2 of 3 seeds finished"
    assert math.isnan(line["value"])
    # Whole numbers stay whole where a kind has no such axis.
    assert {str(frame[axis].dtype) for axis in ("n", "k", "stage")} == {"Int64"}
    assert frame[frame.study == "training"].stage.isna().all()


def test_a_cell_has_the_numbers_of_a_report_on_its_seed_alone(undisturbed):
    frame = maxk_lab.load(undisturbed)
    run = RunDirectory(undisturbed)
    spec = run.spec()
    alone = make_plan(spec.model_copy(update={"seeds": (1,)}))
    told = in_csv(read_report(run, alone))
    assert told
    assert in_frame(frame[frame.seed == 1]) == told
    assert set(frame.status) == {"done"}
    assert list(dict.fromkeys(frame.cell)) == [cell.id for cell in make_plan(spec).cells]
    with_ends = frame[frame.low.notna()]
    assert (with_ends.about != "").all()
    assert set(with_ends[with_ends.study == "weights"].about) == {"exact"}


@pytest.fixture
def torn(undisturbed, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the run with a cell of each state; and the cells by their states."""
    root = tmp_path / "torn"
    shutil.copytree(undisturbed, root)
    run = RunDirectory(root)
    ids = {state: run.ids()[i] for i, state in enumerate(("missing", "unreadable", "failed"))}
    record = run.read(ids["failed"])
    run.write(replace(record, status="failed", metrics=None, error="Traceback\nValueError: no"))
    forget(root, ids["missing"])
    damage(root, ids["unreadable"])
    return root, ids


def test_a_cell_without_a_result_is_a_line_with_its_state(torn):
    root, ids = torn
    with pytest.warns(maxk_lab.LabWarning, match=r"jsonl:\d+: unreadable record: its checksum"):
        frame = maxk_lab.load(root)
    without = frame[frame.status != "done"].set_index("cell")
    states = {"missing": "missing", "unreadable": "missing", "failed": "failed"}
    assert without.status.to_dict() == {ids[name]: state for name, state in states.items()}
    assert without.reason[ids["failed"]] == "ValueError: no"
    assert without.measure.isna().all()
    assert without.value.isna().all()
    assert set(maxk_lab.load(root, failed=False).status) == {"done"}


def test_several_runs_are_told_apart_by_a_column(undisturbed, torn):
    root, _ = torn
    frame = maxk_lab.load([undisturbed, root], over="seeds")
    assert list(frame.columns[:2]) == ["run", "study"]
    assert set(frame.run) == {"run", "torn"}
    again = maxk_lab.load([str(undisturbed), undisturbed])
    assert set(again.run) == {str(undisturbed)}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"run": "no such"}, "no run"),
        ({"over": "seed"}, "over must be one of 'cells', 'seeds', got 'seed'"),
        ({"level": 95}, "level must be a number between 0 and 1"),
        ({"run": 3}, "a run is its name, folder or bundle, got 3"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, asked, said):
    with pytest.raises(LabError, match=said):
        maxk_lab.load(**{"run": "x", "results": tmp_path} | asked)


def test_nothing_heavy_is_imported_before_it_is_used():
    code = (
        "import sys, maxk_lab; assert 'load' in dir(maxk_lab); maxk_lab.load; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "pandas", "matplotlib"}.isdisjoint(done.stdout.split())
