"""The driver with a backend that does as it is told: what is lost, left, detached and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.backends.backend import Told
from maxk_lab.sweeps.run.drive import drive
from maxk_lab.sweeps.run.events import Teller
from maxk_lab.sweeps.run.execute import _tasks
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.spec.load import load_spec

Answer = Callable[[Task, int], list[Told]]


class Scripted:
    """A backend that answers each task as `answer(task, times submitted)` says."""

    leases_itself: ClassVar[bool] = False

    def __init__(self, answer: Answer, room: int = 2) -> None:
        self._answer, self._free = answer, room
        self.submitted: list[Task] = []
        self.most = 0
        self._due: list[list[Told]] = []
        self.detached = self.asked_to_leave = False

    @property
    def room(self) -> int:
        return self._free - len(self._due)

    def submit(self, task: Task) -> None:
        self.submitted.append(task)
        times = sum(one.key == task.key for one in self.submitted)
        self._due.append(self._answer(task, times))
        self.most = max(self.most, len(self._due))

    def events(self, seconds: float) -> Iterator[Told]:
        if self.asked_to_leave:
            for told in self._due:
                yield Told(told[-1].key, "left", {})
            self._due = []
        elif self._due:
            yield from self._due.pop(0)

    def withdraw(self, key: str) -> None: ...

    def leave(self) -> None:
        self.asked_to_leave = True

    def detach(self) -> None:
        self.detached = True


@pytest.fixture
def plan(small: str) -> Plan:
    return make_plan(load_spec(small))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def tasks(plan: Plan, run: RunDirectory) -> list[Task]:
    return _tasks(plan, {cell.id for cell in plan.cells}, run, None)


def measured(task: Task, times: int) -> list[Told]:
    """Every cell done, with its record."""
    done = [
        Told(
            task.key,
            "cell_failed",
            {
                "cell": cell["id"],
                "error": "no",
                "record": Record(cell, "failed", None, "no", {}, {}).to_bytes(),
            },
        )
        for cell in task.cells
    ]
    return [*done, Told(task.key, "unit_finished", {})]


def go(
    tasks: list[Task], run: RunDirectory, backend: Scripted, **options: Any
) -> list[tuple[str, dict[str, Any]]]:
    told: list[tuple[str, dict[str, Any]]] = []
    teller = Teller(run.events_path, lambda name, payload: told.append((name, payload)))
    drive(tasks, run, backend, teller, **options)
    return told


def test_records_that_travel_are_written_and_not_told(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    backend = Scripted(measured)
    told = go(tasks, run, backend)
    assert [record.cell["id"] for record in run.records(plan)] == [c.id for c in plan.cells]
    assert not any("record" in payload for _, payload in told)
    assert {payload["unit"] for _, payload in told} == {task.label for task in tasks}


def test_no_more_is_submitted_than_there_is_room_for(tasks: list[Task], run: RunDirectory) -> None:
    backend = Scripted(measured, room=1)
    go(tasks, run, backend)
    assert backend.most == 1
    assert len(backend.submitted) == len(tasks) == 2


def test_a_lost_unit_is_submitted_again_without_the_cells_that_it_measured(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    def answer(task: Task, times: int) -> list[Told]:
        if times > 1:
            return measured(task, times)
        return [*measured(task, times)[:1], Told(task.key, "lost", {"why": "its node is gone"})]

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

    def answer(task: Task, times: int) -> list[Told]:
        if task.key == first:
            return [Told(task.key, "lost", {"why": "its node is gone"})]
        return measured(task, times)

    backend = Scripted(answer)
    go(tasks, run, backend, retries=retries)
    assert sum(task.key == first for task in backend.submitted) == retries + 1
    records = {record.cell["id"]: record for record in run.records(plan)}
    assert {cell["id"] for cell in tasks[0].cells} <= set(records)
    errors = {records[cell["id"]].error for cell in tasks[0].cells}
    times = ", 3 times in all" if retries else ""
    assert errors == {f"its node is gone{times}. To try again: --retry-failed"}


def test_what_is_left_has_no_record_and_nothing_more_is_submitted(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    backend = Scripted(measured, room=1)
    told = go(tasks, run, backend, leaving=lambda: True)
    assert [name for name, _ in told] == ["left"]
    assert len(backend.submitted) == 1
    assert not run.records(plan)


def test_a_detached_driver_returns_when_all_is_submitted(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    backend = Scripted(measured, room=len(tasks))
    assert go(tasks, run, backend, detach=True) == []
    assert backend.detached
    assert len(backend.submitted) == len(tasks)


def test_what_is_told_of_an_unknown_unit_is_passed_over(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    def answer(task: Task, times: int) -> list[Told]:
        return [Told("0" * 16, "cell_done", {"cell": "x"}), *measured(task, times)]

    assert all(payload["key"] != "0" * 16 for _, payload in go(tasks, run, Scripted(answer)))
    assert len(run.records(plan)) == 8
