"""The driver with a backend that does as it is told: what is lost, left, detached and kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from run_processes import wait_until

from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run import drive as drive_module
from maxk_lab.sweeps.run.backends.backend import Event, Task
from maxk_lab.sweeps.run.drive import drive
from maxk_lab.sweeps.run.execute import tasks_of
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.records import Record, RunDirectory

Answer = Callable[[Task, int], list[Event]]


class Scripted:
    """A backend that answers each task as `answer(task, times submitted)` says."""

    here: ClassVar[bool] = False
    leases_itself: ClassVar[bool] = False

    def __init__(self, answer: Answer, room: int = 2) -> None:
        self._answer, self._free = answer, room
        self.submitted: list[Task] = []
        self.most = 0
        self._due: list[list[Event]] = []
        self.detached = self.asked_to_leave = False

    @property
    def room(self) -> int:
        return self._free - len(self._due)

    def submit(self, task: Task) -> None:
        self.submitted.append(task)
        times = sum(one.key == task.key for one in self.submitted)
        self._due.append(self._answer(task, times))
        self.most = max(self.most, len(self._due))

    def events(self, seconds: float) -> Iterator[Event]:
        if self.asked_to_leave:
            for told in self._due:
                yield Event(told[-1].key, "left", {})
            self._due = []
        elif self._due and self._due[0]:
            yield from self._due.pop(0)

    def leave(self, seconds: float = 60.0) -> None:
        self.asked_to_leave, self.seconds = True, seconds

    def detach(self) -> None:
        self.detached = True


@pytest.fixture
def tasks(plan: Plan, run: RunDirectory) -> list[Task]:
    return tasks_of(plan, {cell.id for cell in plan.cells}, run, None, run.heads)


def measured(task: Task, times: int) -> list[Event]:
    """Every cell done, with its record."""
    lines = [Record(cell, "failed", None, "no").to_line(task.attempt) for cell in task.cells]
    done = [Event(task.key, "record", {"line": line}) for line in lines]
    return [*done, Event(task.key, "unit_finished", {})]


def go(
    tasks: list[Task], run: RunDirectory, backend: Scripted, **options: Any
) -> list[tuple[str, dict[str, Any]]]:
    told: list[tuple[str, dict[str, Any]]] = []

    def tell(name: str, **payload: Any) -> None:
        told.append((name, payload))

    with Driver(run.root) as driver:
        drive(tasks, run, backend, driver, tell, **options)
    return told


def test_a_lost_unit_is_submitted_again_without_the_cells_that_it_measured(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    def answer(task: Task, times: int) -> list[Event]:
        if times > 1:
            return measured(task, times)
        return [*measured(task, times)[:1], Event(task.key, "lost", {"why": "its node is gone"})]

    backend = Scripted(answer)
    go(tasks, run, backend)
    sizes = {task.key: [] for task in tasks}
    for task in backend.submitted:
        sizes[task.key].append(len(task.cells))
    assert list(sizes.values()) == [[4, 3], [4, 3]]
    assert len(run.records(plan)) == 8


@pytest.mark.parametrize("retries", [0, 2])
def test_a_unit_that_is_lost_too_often_fails_with_the_reason(
    tasks: list[Task], run: RunDirectory, plan: Plan, retries: int
) -> None:
    first = tasks[0].key

    def answer(task: Task, times: int) -> list[Event]:
        if task.key == first:
            return [Event(task.key, "lost", {"why": "its node is gone"})]
        return measured(task, times)

    backend = Scripted(answer)
    go(tasks, run, backend, retries=retries)
    assert sum(task.key == first for task in backend.submitted) == retries + 1
    records = {record.cell["id"]: record for record in run.records(plan)}
    assert {cell["id"] for cell in tasks[0].cells} <= set(records)
    errors = {records[cell["id"]].error for cell in tasks[0].cells}
    times = ", 3 times in all" if retries else ""
    assert errors == {f"its node is gone{times}. To try again: --retry-failed"}


def test_what_another_driver_has_measured_is_not_measured_again(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    for cell in (*tasks[0].cells, tasks[1].cells[0]):
        run.write(Record(cell, "failed", None, "by another", {}, {}))
    backend = Scripted(measured)
    told = go(tasks, run, backend)
    assert [(task.key, len(task.cells)) for task in backend.submitted] == [(tasks[1].key, 3)]
    elsewhere = [payload["cells"] for name, payload in told if name == "measured_elsewhere"]
    assert [len(cells) for cells in elsewhere] == [4, 1]
    assert [name for name, _ in told].count("unit_finished") == 2


def test_records_that_are_to_be_replaced_are_until_somebody_has_done_so(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    for task in tasks:
        for cell in task.cells:
            run.write(Record(cell, "failed", None, "by another", {}, {}))
    tasks = tasks_of(plan, {cell.id for cell in plan.cells}, run, None, run.heads)
    anew = tasks[0].cells[0]
    run.write(Record(anew, "failed", None, "by another, later", {}, {}))
    backend = Scripted(measured)
    go(tasks, run, backend)
    assert sum(len(task.cells) for task in backend.submitted) == 7


def test_a_unit_of_another_driver_is_waited_for_and_taken_when_it_is_given_free(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    with Driver(run.root) as other:
        assert other.take(tasks[0].key)

        def answer(task: Task, times: int) -> list[Event]:
            if task.key == tasks[1].key:
                other.release(tasks[0].key)
            return measured(task, times)

        backend = Scripted(answer)
        told = go(tasks, run, backend)
    assert [task.key for task in backend.submitted] == [tasks[1].key, tasks[0].key]
    assert not [name for name, _ in told if name == "waiting"]


def test_a_driver_with_nothing_else_to_do_tells_once_for_whom_it_waits(
    tasks: list[Task], run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive_module, "LOOK_SECONDS", 0.05)
    told: list[dict[str, Any]] = []
    with Driver(run.root) as other, Driver(run.root) as driver:
        for task in tasks:
            assert other.take(task.key)
        wait_until(lambda: driver.holder(tasks[1].key))

        def give_free(name: str, **payload: Any) -> None:
            if name == "waiting":
                told.append(payload)
                for task in tasks:
                    other.release(task.key)

        drive(tasks, run, Scripted(measured), driver, give_free)
    assert [payload["units"] for payload in told] == [[task.label for task in tasks]]
    assert [len(payload["drivers"]) for payload in told] == [1]
    assert f"process {os.getpid()} on " in told[0]["drivers"][0]
