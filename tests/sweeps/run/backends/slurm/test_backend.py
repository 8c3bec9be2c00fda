"""The backend with a queue that is made up: what is reused, told, waited for and refused."""

from __future__ import annotations

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.errors import LabWarning, RefusedError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.slurm import backend as backend_module
from maxk_lab.sweeps.run.backends.slurm import placing, queue, sbatch
from maxk_lab.sweeps.run.backends.slurm.backend import SlurmBackend
from maxk_lab.sweeps.run.backends.slurm.jobs import cancel
from maxk_lab.sweeps.run.backends.slurm.submission import submissions
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.tasks import tasks_of

MakePlan = Callable[..., Plan]


class Queue:
    """A queue where every job waits until a test says what becomes of it."""

    def __init__(self) -> None:
        self.arrays: dict[str, int] = {}
        self.state, self.reason = "PENDING", "Priority"
        self.refuses = False
        self.cancelled: list[str] = []

    def submit(
        self, name: str, calls: Sequence[Any], folder: Path, settings: Mapping[str, Any]
    ) -> str:
        self.arrays[name] = len(calls)
        return str(len(self.arrays))

    def jobs(self, names: Iterable[str]) -> list[queue.Job]:
        numbers = {name: str(at) for at, name in enumerate(self.arrays, 1)}
        return [
            queue.Job(name, numbers[name], index, self.state, "", self.reason)
            for name in names
            for index in range(self.arrays.get(name, 0))
        ]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Queue:
    found = Queue()
    monkeypatch.setattr(queue, "check_there", lambda: None)
    monkeypatch.setattr(queue, "limits", lambda: queue.Limits(101, 1000))
    monkeypatch.setattr(queue, "count", lambda: 0)
    monkeypatch.setattr(queue, "jobs", found.jobs)
    monkeypatch.setattr(queue, "cancel", found.cancelled.extend)
    monkeypatch.setattr(sbatch, "submit", found.submit)
    return found


@pytest.fixture
def plan(planned: MakePlan) -> Plan:
    return planned("execution.backend=slurm")


@pytest.fixture
def tasks(plan: Plan, run: RunDirectory) -> list[Task]:
    run.write_spec(plan.spec)
    return tasks_of(plan, {cell.id for cell in plan.cells}, run, "fake_measures:quick", run.heads)


def fail(run: RunDirectory, plan: Plan) -> None:
    """Give every cell a failed record."""
    for cell in plan.cells:
        run.write(Record(cell.as_dict(), "failed", None, "no", {}, {}))


@pytest.mark.parametrize("option", ["force", "retry_failed"])
def test_jobs_that_would_keep_the_records_are_joined_by_others(
    made_up: Queue, plan: Plan, run: RunDirectory, option: str
) -> None:
    execute(plan, run, detach=True)
    fail(run, plan)
    execute(plan, run, detach=True, **{option: True})
    assert len(made_up.arrays) == 2
    before, after = submissions(run)
    assert before.packs == after.packs
    assert {task.attempt for task in after.tasks(0)} == {2}


def test_jobs_that_are_to_replace_the_same_records_are_joined(
    made_up: Queue, plan: Plan, run: RunDirectory
) -> None:
    fail(run, plan)
    for _ in range(2):
        execute(plan, run, detach=True, retry_failed=True)
    (submission,) = submissions(run)
    assert {task.attempt for task in submission.tasks(0)} == {2}
    submission.of(0).joinpath("tasks.json").write_text("torn")
    execute(plan, run, detach=True, retry_failed=True)
    assert submissions(run)[1].packs == submission.packs[:1]


def tell(run: RunDirectory, name: str, **payload: Any) -> None:
    """Put an event into the log of the first job."""
    with submissions(run)[0].events(0).open("a") as log:
        log.write(json.dumps({"event": name, **payload}) + "\n")


def test_a_unit_that_a_job_could_not_have_is_elsewhere(
    made_up: Queue, tasks: list[Task], run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "SETTLE", 0.0)
    monkeypatch.setattr(backend_module, "ASK_FIRST", 0.0)
    backend = SlurmBackend(run, run.spec().execution, 1, ())
    backend.submit(tasks[0])
    list(backend.events(0.0))
    tell(run, "passed_over", key=tasks[0].key)
    made_up.state = "COMPLETED"
    found = [told for _ in range(4) for told in backend.events(0.0)]
    assert [(told.key, told.name) for told in found if told.key] == [(tasks[0].key, "elsewhere")]
    assert len(made_up.arrays) == 1


def test_what_is_being_submitted_is_cancelled_when_it_is_there(
    made_up: Queue, plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> str:
        begun.set()
        assert goes_on.wait(10)
        return made_up.submit(*arguments)

    monkeypatch.setattr(sbatch, "submit", slowly)
    submits = threading.Thread(target=lambda: execute(plan, run, detach=True))
    submits.start()
    assert begun.wait(10)
    cancels = threading.Thread(target=lambda: cancel(run))
    cancels.start()
    goes_on.set()
    submits.join(10)
    cancels.join(10)
    assert made_up.cancelled == ["1_0", "1_1", "1_2"]
    assert [one.over for one in submissions(run)] == [True]


def test_a_change_of_a_submission_keeps_those_of_others(
    made_up: Queue, plan: Plan, run: RunDirectory
) -> None:
    execute(plan, run, detach=True)
    (submission,) = submissions(run)
    submission.changed(over=True)
    assert submission.changed(number="9").over


def test_nothing_is_written_where_no_jobs_are_cancelled(run: RunDirectory) -> None:
    run.root.mkdir(parents=True)
    assert cancel(run) == []
    assert not list(run.root.iterdir())


def test_ctrl_c_is_heard_while_another_process_submits(
    made_up: Queue, plan: Plan, run: RunDirectory
) -> None:
    with placing.alone(run):
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            execute(plan, run)
    assert not made_up.arrays


def test_the_queue_is_told_when_it_changes(
    made_up: Queue, tasks: list[Task], run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "ASK_FIRST", 0.0)
    backend = SlurmBackend(run, run.spec().execution, 1, ())
    for task in tasks:
        backend.submit(task)

    def look() -> list[Any]:
        return [told.payload for told in backend.events(0.0) if told.name == "jobs"]

    list(look())
    assert backend._waiting == {"queued": {"Priority": 3}, "running": 0}
    assert look() == []
    made_up.reason = "PartitionTimeLimit"
    assert look() == [{"queued": {"PartitionTimeLimit": 3}, "running": 0}]
    made_up.state, made_up.reason = "RUNNING", "None"
    assert look() == [{"queued": {}, "running": 3}]


def test_jobs_that_keep_their_earlier_options_are_warned_of(
    made_up: Queue, planned: MakePlan, run: RunDirectory
) -> None:
    execute(planned("execution.backend=slurm"), run, detach=True)
    other = planned("execution.backend=slurm", "execution.partition=big")
    with pytest.warns(LabWarning, match="3 jobs .* keep the execution options .* --cancel first"):
        execute(other, run, detach=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        execute(planned("execution.backend=slurm"), run, detach=True)


def test_a_refusal_says_what_was_taken_before_it(
    made_up: Queue, plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit_one(*arguments: Any) -> str:
        if made_up.arrays:
            raise RefusedError("sbatch does not take the jobs: too many")
        return made_up.submit(*arguments)

    monkeypatch.setattr(queue, "limits", lambda: queue.Limits(2, 1000))
    monkeypatch.setattr(sbatch, "submit", submit_one)
    wanted = (
        "too many; 2 of 3 jobs were taken .* maxk-lab status .* maxk-lab status .*--cancel.*pack"
    )
    with pytest.raises(RefusedError, match=wanted):
        execute(plan, run, detach=True)
