"""Records on disk: whole or absent, and never mistaken for what they are not."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written import gradient_metrics
from stored import damage

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.find import find_run
from maxk_lab.sweeps.run.progress import estimate_seconds, statuses
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "small")


def record_of(path: str, number: int = 0, **fields: object) -> Record:
    cell = make_plan(load_spec(path)).cells[number].as_dict()
    return Record(
        **{
            "cell": cell,
            "status": "done",
            "metrics": gradient_metrics(cell, value=0.1),
            "timings": {"seconds": 2.0},
            **fields,
        }
    )  # type: ignore[arg-type]


def test_reads_what_was_written(small: str, run: RunDirectory) -> None:
    record = record_of(small)
    run.write(record)
    assert run.read(record.cell["id"]) == record
    assert run.problems == []


def test_a_damaged_record_counts_as_absent_until_it_is_measured_again(
    small: str, run: RunDirectory
) -> None:
    record = record_of(small)
    run.write(record)
    path = damage(run.root, record.cell["id"])
    run = RunDirectory(run.root)
    assert run.read(record.cell["id"]) is None
    assert run.attempt(record.cell["id"]) == 0
    assert list(run.damaged) == [record.cell["id"]]
    assert run.problems[0].startswith(f"{path}:1: a damaged record")
    run.write(record)
    assert run.read(record.cell["id"]) == record
    assert run.problems == []


def test_a_record_that_is_measured_again_counts_in_place_of_the_first(
    small: str, run: RunDirectory
) -> None:
    record = record_of(small)
    failed = replace(record, status="failed", metrics=None, error="x")
    run.write(failed)
    run.write(record)
    assert (run.attempt(record.cell["id"]), run.read(record.cell["id"])) == (2, record)
    run.write(failed)
    assert run.read(record.cell["id"]) == failed
    assert [one.cell for one in run.failed()] == [record.cell]


def test_a_failed_write_leaves_the_old_record(small: str, run: RunDirectory) -> None:
    record = record_of(small)
    run.write(record)
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write(record_of(small, metrics={"value": float("nan")}))
    with pytest.raises(ValueError, match="units is missing; replicates is missing"):
        run.write(record_of(small, metrics={"value": 0.1}))
    assert run.read(record.cell["id"]) == record


def test_records_of_another_spec_are_stale_and_stay(small: str, run: RunDirectory) -> None:
    record = record_of(small)
    run.write(record)
    changed = make_plan(load_spec(small, ["gradient.pool=32"]))
    assert run.stale(changed) == [record.cell["id"]]
    assert run.records(changed) == []
    assert run.stale(make_plan(load_spec(small))) == []


def test_states_and_estimate(small: str, run: RunDirectory) -> None:
    plan = make_plan(load_spec(small))
    assert estimate_seconds(plan, run) is None
    for number in range(3):
        run.write(record_of(small, number))
    run.write(record_of(small, 3, status="failed", metrics=None, error="x"))
    assert list(statuses(plan, run).values()) == ["done"] * 3 + ["failed"] + ["missing"] * 4
    assert estimate_seconds(plan, run) == 6.0


def test_find_run_by_name_path_and_age(small: str, tmp_path: Path) -> None:
    spec, results = load_spec(small), tmp_path / "results"
    for age, name in ((100, "older"), (0, "newer")):
        RunDirectory(results / name).write_spec(spec)
        os.utime(results / name / "spec.yaml", (time.time() - age,) * 2)
    assert find_run(None, results).name == "newer"
    assert find_run("older", results).root == results / "older"
    assert find_run(str(results / "older")).spec() == spec
    with pytest.raises(
        LabError, match=r"^no run 'oldr' \(did you mean older\?\); known: newer, older$"
    ):
        find_run("oldr", results)
    with pytest.raises(LabError, match="no runs under"):
        find_run(None, tmp_path / "nowhere")


def test_a_rewritten_run_has_one_segment_of_what_is_kept(small: str, run: RunDirectory) -> None:
    for number in range(3):
        RunDirectory(run.root).write(record_of(small, number))
    kept = run.ids()[1:]
    run.rewrite(kept)
    assert len(list(run.records_path.iterdir())) == 1
    assert RunDirectory(run.root).ids() == run.ids() == kept


def test_a_copy_has_the_same_digest_and_no_other_run_has(
    small: str, run: RunDirectory, tmp_path: Path
) -> None:
    spec = load_spec(small)
    run.write(record_of(small))
    shutil.copytree(run.root, tmp_path / "copy")
    copy = RunDirectory(tmp_path / "copy")
    assert copy.digest(spec) == run.digest(spec)
    assert copy.digest(load_spec(small, ["gradient.pool=32"])) != run.digest(spec)
    copy.write(record_of(small, 1))
    assert copy.digest(spec) != run.digest(spec)


def test_records_that_cannot_be_listed_are_told(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.records_path.write_text("no folder")
    with pytest.raises(LabError, match="cannot be read"):
        run.ids()
