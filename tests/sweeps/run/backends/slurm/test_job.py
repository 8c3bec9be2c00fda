"""A job in this process, as Slurm would start it: what is left to do, what is lost or stuck."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.slurm import job, queue
from maxk_lab.sweeps.run.backends.slurm.job import Pack, job_id
from maxk_lab.sweeps.run.backends.slurm.submission import Submission
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.tasks import tasks_of

MakePlan = Callable[..., Plan]


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """Keep from this process what a job does with its own, and put its handlers back."""
    before = {number: signal.getsignal(number) for number in job._SIGNALS}
    # Not by `monkeypatch`, which puts the real `signal` back only after this.
    with patch.object(job, "close_current_folder"):
        yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def plan(planned: MakePlan) -> Plan:
    """The sweep with as many tries as one."""
    return planned("execution.retries=1")


@pytest.fixture
def submission(plan: Plan, run: RunDirectory) -> Submission:
    """One job with every unit."""
    run.write_spec(plan.spec)
    tasks = tasks_of(plan, {cell.id for cell in plan.cells}, run, "fake_measures:quick", run.heads)
    return Submission.write_new(run, [tasks], plan.spec.execution)


def start(submission: Submission) -> None:
    Pack(str(submission.root), submission.name, 0)()


def told(submission: Submission) -> list[dict[str, Any]]:
    path = submission.events(0)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tell(submission: Submission, *events: dict[str, Any]) -> None:
    """Put events into the log of the job, as an earlier start of it would have."""
    with submission.events(0).open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def begun(key: str) -> list[dict[str, Any]]:
    """What a start tells that ends in the middle of a unit."""
    return [{"event": "job_started"}, {"event": "unit_started", "key": key}]


def test_a_submission_that_is_over_has_nothing_to_do(submission: Submission) -> None:
    start(submission.changed(over=True))
    assert told(submission) == []


def test_units_whose_node_was_lost_too_often_fail_and_others_do_not(
    submission: Submission, run: RunDirectory, plan: Plan
) -> None:
    first, *others = submission.packs[0]
    tell(submission, *begun(first), *begun(first))
    cells = {task.key: task.cells for task in submission.tasks(0)}
    start(submission)
    records = {record.cell["id"]: record for record in run.records(plan)}
    errors = {records[cell["id"]].error for cell in cells[first]}
    assert errors == {
        "the node was lost while it measured this, 2 times in all. To try again: --retry-failed"
    }
    assert all(records[cell["id"]].status == "done" for key in others for cell in cells[key])
    assert told(submission)[-1]["event"] == "job_finished"


def test_a_lost_node_is_forgiven_as_often_as_the_file_says(
    submission: Submission, run: RunDirectory, plan: Plan
) -> None:
    for key in submission.packs[0]:
        tell(submission, *begun(key), {"event": "job_signalled"}, *begun(key))
    start(submission)
    assert {record.status for record in run.records(plan)} == {"done"}


def test_a_unit_that_another_driver_has_is_passed_over(
    submission: Submission, run: RunDirectory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_PATIENCE", 0.0)
    key = submission.packs[0][1]
    with Driver(run.root) as driver:
        assert driver.take(key)
        start(submission)
    names = [event["event"] for event in told(submission)]
    assert [event["key"] for event in told(submission) if event["event"] == "passed_over"] == [key]
    assert "job_finished" not in names
    assert len(run.records(plan)) == 8


class Requeued(list[str]):
    """The jobs that were requeued."""


def _signalled(
    submission: Submission, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Start the job with a signal that has come; return which jobs it has requeued."""
    requeued = Requeued()
    monkeypatch.setattr(queue, "requeue", requeued.append)
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "17")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    install = signal.signal

    def install_and_come(which: int, handler: Any) -> Any:
        before = install(which, handler)
        if which == job._SIGNALS[-1]:
            os.kill(os.getpid(), number)
        return before

    monkeypatch.setattr(job.signal, "signal", install_and_come)
    start(submission)
    return requeued


def test_a_job_whose_time_is_up_requeues_itself(
    submission: Submission, run: RunDirectory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _signalled(submission, signal.SIGUSR2, monkeypatch) == ["17_3"]
    assert not run.records(plan)
    assert [event["event"] for event in told(submission)] == [
        "job_started",
        "job_signalled",
        "job_requeued",
    ]


def test_where_a_site_lets_no_job_requeue_itself_others_may_have_its_units(
    submission: Submission, run: RunDirectory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(job: str) -> None:
        raise queue.QueueError("scontrol: Requested operation is presently disabled")

    with monkeypatch.context() as patch:
        patch.setattr(Requeued, "append", lambda _, job: refuse(job))
        _signalled(submission, signal.SIGUSR2, monkeypatch)
    events = told(submission)
    assert events[2]["error"] == "scontrol: Requested operation is presently disabled"
    assert [event["event"] for event in events[3:]] == ["passed_over"] * 3


def test_a_controller_that_is_busy_is_asked_again_while_there_is_time(
    submission: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def busy_at_first(job: str) -> None:
        asked.append(job)
        if len(asked) < 3:
            raise queue.QueueError("scontrol: Unable to contact slurm controller")

    monkeypatch.setattr(job, "_AGAIN", 0.01)
    monkeypatch.setattr(Requeued, "append", lambda _, job: busy_at_first(job))
    _signalled(submission, signal.SIGUSR2, monkeypatch)
    assert asked == ["17_3"] * 3
    assert told(submission)[-1]["event"] == "job_requeued"


@pytest.mark.parametrize(("cancelled", "expected"), [(False, "passed_over"), (True, "")])
def test_a_controller_that_does_not_answer_is_given_up_when_the_time_is_up_or_at_a_cancel(
    submission: Submission, monkeypatch: pytest.MonkeyPatch, cancelled: bool, expected: str
) -> None:
    asked: list[str] = []

    def never(number: str) -> None:
        asked.append(number)
        if cancelled:
            os.kill(os.getpid(), signal.SIGTERM)
        raise queue.QueueError("scontrol: Unable to contact slurm controller")

    started = job._Job(submission, 0)
    monkeypatch.setattr(queue, "requeue", never)
    monkeypatch.setattr(job, "_AGAIN", 0.02)
    signal.signal(signal.SIGTERM, started._note)
    # Its time is up in a tenth of a second.
    started._signalled = time.monotonic() - started._execution.parameters["signal"] + 0.1
    started._requeue()
    assert len(asked) == 1 if cancelled else 1 < len(asked) <= 6
    assert {event["event"] for event in told(submission)[1:]} == ({expected} - {""})


def test_a_job_that_is_told_to_end_does_not_come_back_by_itself(
    submission: Submission, run: RunDirectory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _signalled(submission, signal.SIGTERM, monkeypatch) == []
    assert not run.records(plan)
    assert [event["event"] for event in told(submission)] == ["job_started", "job_signalled"]


def test_a_unit_that_comes_no_further_in_a_whole_job_fails(
    submission: Submission, run: RunDirectory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = submission.packs[0][0]
    progress = {"event": "progress", "key": key, "phase": "pool", "done": 3, "of": 9}
    tell(submission, *begun(key), progress, {"event": "job_signalled"})

    def drive(work: Any, *rest: Any, leaving: Callable[[], float | None], **more: Any) -> None:
        tell(submission, {"event": "unit_started", "key": key}, progress)
        os.kill(os.getpid(), signal.SIGUSR2)
        while leaving() is None:
            pass

    monkeypatch.setattr(job, "drive", drive)
    requeued: list[str] = []
    monkeypatch.setattr(queue, "requeue", requeued.append)
    start(submission)
    records = run.records(plan)
    assert {record.cell["id"] for record in records} == {
        cell["id"] for cell in submission.tasks(0)[0].cells
    }
    assert all("no further in a whole job" in (record.error or "") for record in records)
    # The others have not had their turn.
    assert len(requeued) == 1


@pytest.mark.parametrize(
    ("number", "before", "seconds"),
    [
        (signal.SIGUSR2, 120, 60.0),
        (signal.SIGUSR2, 30, 15.0),
        (signal.SIGTERM, 120, 20.0),
    ],
)
def test_units_leave_before_slurm_kills_the_job(
    planned: MakePlan, run: RunDirectory, number: signal.Signals, before: int, seconds: float
) -> None:
    plan = planned("execution.backend=slurm", f"execution.signal={before}")
    tasks = tasks_of(plan, {cell.id for cell in plan.cells}, run, "fake_measures:quick", run.heads)
    started = job._Job(Submission.write_new(run, [tasks], plan.spec.execution), 0)
    assert started._leaving() is None
    started._note(number, None)
    assert started._leaving() == seconds


def test_a_job_is_known_by_its_place_in_an_array_or_by_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)
    assert job_id() == "18"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "17")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert job_id() == "17_0"
