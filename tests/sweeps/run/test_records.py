"""Records on disk: whole or absent, and never mistaken for what they are not."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written import gradient_metrics

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.identity import content_hash
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.find import find_run
from maxk_lab.sweeps.run.progress import estimate_seconds, statuses
from maxk_lab.sweeps.run.record import StaleRecordError
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


def put(run: RunDirectory, data: bytes, cell_id: str) -> Path:
    """Lay bytes in the place of a record, whatever they are."""
    path = run.cells_path / f"{cell_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_reads_what_was_written(small: str, run: RunDirectory) -> None:
    record = record_of(small)
    run.write(record)
    assert run.read(record.cell["id"]) == record
    assert run.problems == []
    assert [path.name for path in run.cells_path.iterdir()] == [f"{record.cell['id']}.json"]


@pytest.mark.parametrize(
    "damage", ["truncated", "empty", "changed", "other cell", "no record", "binary"]
)
def test_damaged_records_count_as_absent(small: str, run: RunDirectory, damage: str) -> None:
    record = record_of(small)
    run.write(record)
    path = run.cells_path / f"{record.cell['id']}.json"
    data = path.read_bytes()
    damaged = {
        "truncated": data[: len(data) // 2],
        "empty": b"",
        "changed": data.replace(b"0.1", b"0.2"),
        "other cell": record_of(small, 1).to_bytes(),
        "no record": b"[1]",
        "binary": bytes(range(256)),
    }[damage]
    assert damaged != data
    path.write_bytes(damaged)
    assert run.read(record.cell["id"]) is None
    assert len(run.problems) == 1
    assert str(path) in run.problems[0]
    run.write(record)
    assert run.read(record.cell["id"]) == record
    assert run.problems == []


def test_a_failed_write_leaves_the_old_record(small: str, run: RunDirectory) -> None:
    record = record_of(small)
    run.write(record)
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write(record_of(small, metrics={"value": float("nan")}))
    with pytest.raises(ValueError, match="units is missing; replicates is missing"):
        run.write(record_of(small, metrics={"value": 0.1}))
    assert run.read(record.cell["id"]) == record


def test_records_of_another_identity_version_are_stale(small: str, run: RunDirectory) -> None:
    cell = {**make_plan(load_spec(small)).cells[0].as_dict(), "identity_version": 0}
    del cell["id"]
    cell["id"] = content_hash(cell)
    with pytest.raises(StaleRecordError):
        run.write(Record(cell, "done", {}))
    put(run, Record(cell, "done", {}).to_bytes(), cell["id"])
    assert run.read(cell["id"]) is None
    assert run.stale(make_plan(load_spec(small))) == [cell["id"]]
    assert run.problems == []


def test_records_of_another_spec_are_stale_and_stay(small: str, run: RunDirectory) -> None:
    record = record_of(small)
    run.write(record)
    changed = make_plan(load_spec(small, ["gradient.pool=32"]))
    assert run.stale(changed) == [record.cell["id"]]
    assert run.records(changed) == []
    assert run.stale(make_plan(load_spec(small))) == []


def test_outlines_are_records_without_their_metrics(small: str, run: RunDirectory) -> None:
    plan = make_plan(load_spec(small))
    record = record_of(small, provenance={"host": "a"})
    run.write(record)
    bare = replace(record, metrics=None, provenance={})
    assert run.outlines(plan) == [bare]
    assert run.records(plan) == [record]
    run.write(replace(record, status="failed", metrics=None, error="x"))
    assert [one.status for one in run.outlines(plan)] == ["failed"]
    (run.cells_path / f"{record.cell['id']}.json").write_bytes(b"{")
    assert run.outlines(plan) == []
    assert len(run.problems) == 1


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


def test_a_record_is_plain_json(small: str) -> None:
    content = json.loads(record_of(small).to_bytes())
    assert set(content) == {
        "cell",
        "checksum",
        "error",
        "metrics",
        "provenance",
        "status",
        "timings",
    }


def test_records_that_cannot_be_listed_are_told(tmp_path):
    run = RunDirectory(tmp_path)
    run.cells_path.write_text("no folder")
    with pytest.raises(LabError, match="cannot be listed"):
        run.ids()
