"""Records on disk: whole or absent, and never mistaken for what they are not."""

from dataclasses import replace
from socket import socketpair

import pytest
from hand_written import gradient_metrics
from pydantic_core import from_json
from stored import damage, forget
from written_runs import record_of

from maxk_lab.errors import LabWarning
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import tasks_of
from maxk_lab.execution.store import Segment, body_of, line_of
from maxk_lab.execution.todo import Run
from maxk_lab.execution.worker import _Work


@pytest.fixture
def record(plan):
    """The record of the first cell."""
    return record_of(plan.cells[0])


def test_the_last_attempt_counts_and_an_unreadable_record_is_missing(record, run):
    cell = record.cell["id"]
    run.write(replace(record, status="failed", metrics=None, error="ValueError: \ud800"))
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


def test_what_cannot_be_read_again_is_not_written(record, run):
    run.write(record)
    cell = record.cell
    for metrics, why in (
        ({"value": float("nan")}, "not JSON compliant"),
        (None, "does not go with its metrics"),
        ({"value": 0.1}, "units is missing; replicates is missing"),
        (gradient_metrics(cell, bias={}), "bias.squared is missing"),
    ):
        with pytest.raises(ValueError, match=why):
            run.write(replace(record, metrics=metrics))
    assert RunDirectory(run.root).read(cell["id"]) == record
    assert run.heads[cell["id"]].attempt == 1


def test_states_and_estimate(plan, run):
    assert Run(plan, run).seconds_left() is None
    for number, cell in enumerate(plan.cells[:4]):
        run.write(record_of(cell, failed=number == 3))
    assert list(Run(plan, run).states().values()) == ["done"] * 3 + ["failed"] + ["missing"] * 4
    # Three cells took 1.5 s each, and four are missing.
    assert Run(plan, run).seconds_left() == 6.0
    forget(run.root, plan.cells[2].id)
    assert Run(plan, run).seconds_left() == 7.5


def test_a_segment_that_is_removed_meanwhile_is_a_warning(record, run, monkeypatch):
    run.write(record)
    (segment,) = run.records_path.glob("*")
    assert run.heads
    monkeypatch.setattr(run.store, "refresh", lambda: segment.unlink(missing_ok=True))
    with pytest.warns(LabWarning, match="cannot be read: No such file .* cells count as missing"):
        assert run.read(record.cell["id"]) is None


def test_timings_that_cannot_be_kept_fail_their_cell_alone(plan, run):
    (task, *_) = tasks_of(Run(plan, run), {plan.cells[0].id}, "fake:measure", {})
    (cell,) = task.cells
    ours, theirs = socketpair()
    with ours, theirs:
        metrics = gradient_metrics(cell) | {"timings": {"step": float("nan")}}
        _Work(task, ours, Segment(run.records_path)).keep_all([(cell["id"], metrics)])
    record = run.read(cell["id"])
    assert record is not None
    assert "the metrics cannot be kept: Traceback" in (record.error or "")


UNREADABLE = [
    (("cell", "id"), "0" * 16, "it is not the record of this cell"),
    (("cell",), None, "it is not the record of this cell"),
    (("status",), "failed", "status failed does not go with its error"),
    (("metrics",), None, "status done does not go with its metrics"),
    (("error",), "no", "status done does not go with its error"),
    (("more",), 1, "not a record of this version"),
    (("metrics", "units"), [1, 2], "units must be a mapping"),
    (("metrics", "units", "m2"), [1.0], "mean_square has 2 entries where there must be 1"),
]


@pytest.mark.parametrize(("place", "value", "why"), UNREADABLE)
def test_what_no_cell_can_have_measured_is_unreadable_whatever_its_checksum_says(
    record, run, plan, place, value, why
):
    line = record.to_line()
    head, body = from_json(line[9:].partition(b"\t")[0]), body_of(line)
    mapping = head if place == ("status",) else body
    for key in place[:-1]:
        mapping = mapping[key]
    mapping[place[-1]] = value
    run.append(line_of(head, body))
    with pytest.warns(LabWarning, match=f"jsonl:1: unreadable record: .*{why}"):
        assert run.records(plan) == []
    assert run.read(record.cell["id"]) is None
