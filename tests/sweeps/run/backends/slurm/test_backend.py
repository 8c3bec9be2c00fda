"""The backend with a queue that is made up: what is reused, told, waited for and refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.slurm import queue, sbatch
from maxk_lab.sweeps.run.backends.slurm.submission import submissions
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.tasks import tasks_of
from maxk_lab.sweeps.run.workers.worker import Task

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
    return tasks_of(plan, {cell.id for cell in plan.cells}, run, "fake_measures:quick")


def fail(run: RunDirectory, plan: Plan) -> None:
    """Give every cell a failed record."""
    for cell in plan.cells:
        run.write(Record(cell.as_dict(), "failed", None, "no", {}, {}))


@pytest.mark.parametrize("option", ["force", "retry_failed"])
def test_jobs_that_would_keep_the_records_are_not_waited_for(
    made_up: Queue, plan: Plan, run: RunDirectory, option: str
) -> None:
    execute(plan, run, detach=True)
    fail(run, plan)
    with pytest.raises(LabError, match=r"job 1_0 and 2 more .* maxk-lab cancel .*small; or wait"):
        execute(plan, run, detach=True, **{option: True})
    assert len(made_up.arrays) == 1


def test_jobs_that_are_to_replace_the_same_records_are_joined(
    made_up: Queue, plan: Plan, run: RunDirectory
) -> None:
    fail(run, plan)
    for _ in range(2):
        execute(plan, run, detach=True, retry_failed=True)
    assert len(made_up.arrays) == 1
    (submission,) = submissions(run)
    assert len(submission.work(0).before) == 4
    submission.of(0).joinpath("tasks.json").write_text("torn")
    with pytest.raises(LabError, match="job 1_0 of this run"):
        execute(plan, run, detach=True, retry_failed=True)
