"""The driver with a scripted backend: lost tasks, other drivers, and the end by a signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from run_processes import wait_until

from maxk_lab.execution import drive as drive_module
from maxk_lab.execution.drive import drive
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.execution.run import Run, tasks_of
from maxk_lab.execution.tasks import Event, Task
from maxk_lab.planning.plan import Plan

Answer = Callable[[Task, int], list[Event]]


class Scripted:
    """A backend for two tasks that answers each as `answer(task, times begun)` says."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.begun: list[Task] = []
        self._due: list[list[Event]] = []

    @property
    def room(self) -> int:
        return 2 - len(self._due)

    def begin(self, task: Task) -> None:
        self.begun.append(task)
        times = sum(one.key == task.key for one in self.begun)
        self._due.append(self._answer(task, times))

    def events(self, seconds: float, waiting: int) -> Iterator[Event]:
        yield from self._due.pop(0)


@pytest.fixture
def tasks(plan: Plan, run: RunDirectory) -> list[Task]:
    return tasks_of(Run(plan, run), {cell.id for cell in plan.cells}, None, run.heads)


class Interrupted(Scripted):
    """A backend that gets a signal while it measures, and then leaves its tasks."""

    def __init__(self, number: int) -> None:
        super().__init__(lambda task, times: [Event(task.key, "left", {})])
        self._number, self.seconds = number, 0.0

    def leave(self, seconds: float) -> None:
        self.seconds = seconds

    def events(self, seconds: float, waiting: int) -> Iterator[Event]:
        if self.seconds:
            yield from super().events(seconds, waiting)
        else:
            os.kill(os.getpid(), self._number)


def records(task: Task, count: int) -> list[Event]:
    """Append records of the first cells, as a worker does."""
    lines = [Record(cell, "failed", None, "no").to_line(task.attempt) for cell in task.cells]
    RunDirectory(task.root).append(b"".join(lines[:count]))
    return []


def measured(task: Task, times: int) -> list[Event]:
    """Append a record of every cell."""
    return [*records(task, 9), Event(task.key, "unit_finished", {})]


def go(tasks: list[Task], run: RunDirectory, backend: Any) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = []
    with Driver(run.root) as driver:
        drive(tasks, run, backend, driver, lambda *event: events.append(event))
    return events


ALL_FAIL = "No cell of the unit was measured: all of them fail. To try again: --retry-failed"


@pytest.mark.parametrize(
    ("losses", "sizes", "failed", "error"),
    [
        ([1], [4, 2], 1, "it died. To try again: --retry-failed"),
        ([1, 1], [4, 2], 2, "it died. To try again: --retry-failed"),
        ([0, 2], [4, 3], 2, "it died. To try again: --retry-failed"),
        ([4], [4], 0, ""),
        # The work that all cells share is at fault.
        ([0, 0], [4, 3], 4, "it died. "),
    ],
)
def test_the_first_cell_without_a_record_of_a_lost_unit_fails_and_the_rest_is_measured(
    tasks: list[Task], run: RunDirectory,
    losses: list[int], sizes: list[int], failed: int, error: str,
) -> None:  # fmt: skip
    """`losses` are the numbers of records that the workers write before they are lost."""
    first = tasks[0].key

    def answer(task: Task, times: int) -> list[Event]:
        if task.key != first or times > len(losses):
            return measured(task, times)
        return [*records(task, losses[times - 1]), Event(task.key, "lost", {"why": "it died"})]

    backend = Scripted(answer)
    go(tasks, run, backend)
    assert [len(task.cells) for task in backend.begun if task.key == first] == sizes
    errors = {head: str(run.read(head).error) for head in run.ids()}
    assert len(errors) == 8
    faults = [errors[cell["id"]] for cell in tasks[0].cells if errors[cell["id"]] != "no"]
    assert [fault.startswith(error) for fault in faults] == [True] * failed
    assert (ALL_FAIL in "".join(faults)) == (failed == 4)


def test_what_another_driver_has_measured_is_not_measured_again(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    """Nor are records that are to be replaced, once somebody has done so."""
    for cell in (*tasks[0].cells, tasks[1].cells[0]):
        run.write(Record(cell, "failed", None, "by another", {}, {}))
    backend = Scripted(measured)
    events = go(tasks, run, backend)
    assert [(task.key, len(task.cells)) for task in backend.begun] == [(tasks[1].key, 3)]
    names = [name for name, _ in events]
    assert (names.count("cell_failed"), names.count("unit_finished")) == (8, 2)
    anew = tasks_of(Run(plan, run), {cell.id for cell in plan.cells}, None, run.heads)
    run.write(Record(anew[0].cells[0], "failed", None, "by another, later", {}, {}))
    backend = Scripted(measured)
    go(anew, run, backend)
    assert sum(len(task.cells) for task in backend.begun) == 7


def test_a_unit_of_another_driver_is_waited_for_and_taken_when_it_is_given_free(
    tasks: list[Task], run: RunDirectory
) -> None:
    with Driver(run.root) as other:
        assert other.take(tasks[0].key)

        def answer(task: Task, times: int) -> list[Event]:
            if task.key == tasks[1].key:
                other.release(tasks[0].key)
            return measured(task, times)

        backend = Scripted(answer)
        events = go(tasks, run, backend)
    assert [task.key for task in backend.begun] == [tasks[1].key, tasks[0].key]
    assert not [name for name, _ in events if name == "waiting"]


def test_a_driver_with_nothing_else_to_do_tells_once_for_whom_it_waits(
    tasks: list[Task], run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive_module, "OTHERS_SECONDS", 0.05)
    told: list[dict[str, Any]] = []
    with Driver(run.root) as other, Driver(run.root) as driver:
        for task in tasks:
            assert other.take(task.key)
        wait_until(lambda: driver.holder(tasks[1].key))

        def release(name: str, payload: dict[str, Any]) -> None:
            if name == "waiting":
                told.append(payload)
                for task in tasks:
                    other.release(task.key)

        drive(tasks, run, cast(Any, Scripted(measured)), driver, release)
    assert [payload["units"] for payload in told] == [[task.label for task in tasks]]
    assert [len(payload["drivers"]) for payload in told] == [1]
    assert f"process {os.getpid()} on " in told[0]["drivers"][0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_time_for_checkpoints_and_no_records(
    tasks: list[Task], run: RunDirectory, number: int
) -> None:
    backend = Interrupted(number)
    with pytest.raises(KeyboardInterrupt):
        go(tasks, run, backend)
    assert 0 < backend.seconds < 5
    assert run.ids() == []
