"""Records on disk: whole or absent, and never mistaken for what they are not."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_written import gradient_metrics
from pydantic_core import from_json
from stored import change_line, damage, forget

from maxk_lab.errors import LabError, LabWarning
from maxk_lab.execution.archive import find_run
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.execution.store import body_of, line_of
from maxk_lab.execution.todo import Run
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec


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


def test_the_last_attempt_counts_and_an_unreadable_record_is_missing(
    small: str, run: RunDirectory
) -> None:
    record = record_of(small)
    cell = record.cell["id"]
    failed = replace(record, status="failed", metrics=None, error="ValueError: \ud800")
    run.write(failed)
    # No terminal and no file could hold half of a letter.
    assert [(one.cell, one.error) for one in run.failed()] == [(record.cell, "ValueError: \\ud800")]
    run.write(record)
    assert (run.heads[cell].attempt, run.read(cell)) == (2, record)
    forget(run.root, "0" * 16)
    path = damage(run.root, cell)
    run = RunDirectory(run.root)
    with pytest.warns(LabWarning, match=f"{path}:1: unreadable record: its checksum"):
        assert (run.read(cell), run.heads.get(cell)) == (None, None)
    run.write(record)
    assert run.read(cell) == record


def test_what_cannot_be_read_again_is_not_written(small: str, run: RunDirectory) -> None:
    record = record_of(small)
    run.write(record)
    cell = record.cell
    for other, why in (
        (record_of(small, metrics={"value": float("nan")}), "not JSON compliant"),
        (record_of(small, metrics=None), "does not go with its metrics"),
        (record_of(small, metrics={"value": 0.1}), "units is missing; replicates is missing"),
        (record_of(small, metrics=gradient_metrics(cell, bias={})), "bias.squared is missing"),
    ):
        with pytest.raises(ValueError, match=why):
            run.write(other)
    assert RunDirectory(run.root).read(cell["id"]) == record
    assert run.heads[cell["id"]].attempt == 1


def test_states_and_estimate(small: str, run: RunDirectory) -> None:
    plan = make_plan(load_spec(small))
    assert Run(plan, run).seconds_left() is None
    for number in range(3):
        run.write(record_of(small, number))
    run.write(record_of(small, 3, status="failed", metrics=None, error="x"))
    assert list(Run(plan, run).states().values()) == ["done"] * 3 + ["failed"] + ["missing"] * 4
    assert Run(plan, run).seconds_left() == 6.0


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


UNREADABLE = [
    (("cell", "id"), "0" * 16, "it is not the record of this cell"),
    (("status",), "failed", "status failed does not go with its error"),
    (("metrics",), None, "status done does not go with its metrics"),
    (("error",), "no", "status done does not go with its error"),
    (("more",), 1, "not a record of this version"),
    (("metrics", "units"), [1, 2], "units must be a mapping"),
    (("metrics", "units", "m2"), [1.0], "mean_square has 2 entries where there must be 1"),
]


@pytest.mark.parametrize(("place", "value", "why"), UNREADABLE)
def test_what_no_cell_can_have_measured_is_unreadable_whatever_its_checksum_says(
    small: str, run: RunDirectory, place: tuple[str, ...], value: Any, why: str
) -> None:
    run.write(record_of(small))
    (cell,) = run.ids()

    def changed(line: bytes) -> bytes:
        head = from_json(line[9:].partition(b"\t")[0])
        part = content = body_of(line) | {"status": head["status"]}
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
        return line_of(head | {"status": content.pop("status")}, content)

    change_line(run.root, cell, changed)
    run = RunDirectory(run.root)
    with pytest.warns(LabWarning, match=f"jsonl:1: unreadable record: .*{why}"):
        assert run.records(make_plan(load_spec(small))) == []
    assert run.read(cell) is None
