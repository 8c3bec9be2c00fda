"""The driver with a scripted backend: lost tasks, other drivers, and the end by a signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from run_processes import wait_until

from maxk_lab.execution import drive as drive_module
from maxk_lab.execution.backends.backend import Event, Task
from maxk_lab.execution.drive import drive
from maxk_lab.execution.execute import tasks_of
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.planning.plan import Plan

Answer = Callable[[Task, int], list[Event]]


class Scripted:
    """A backend for two tasks that answers each as `answer(task, times submitted)` says."""

    here: ClassVar[bool] = False

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.submitted: list[Task] = []
        self._due: list[list[Event]] = []

    @property
    def room(self) -> int:
        return 2 - len(self._due)

    def submit(self, task: Task) -> None:
        self.submitted.append(task)
        times = sum(one.key == task.key for one in self.submitted)
        self._due.append(self._answer(task, times))

    def events(self, seconds: float) -> Iterator[Event]:
        yield from self._due.pop(0)


@pytest.fixture
def tasks(plan: Plan, run: RunDirectory) -> list[Task]:
    return tasks_of(plan, {cell.id for cell in plan.cells}, run, None, run.heads)


class Interrupted(Scripted):
    """A backend that gets a signal while it measures, and then leaves its tasks."""

    def __init__(self, number: int) -> None:
        super().__init__(lambda task, times: [Event(task.key, "left", {})])
        self._number, self.seconds = number, 0.0

    def leave(self, seconds: float) -> None:
        self.seconds = seconds

    def events(self, seconds: float) -> Iterator[Event]:
        if self.seconds:
            yield from super().events(seconds)
        else:
            os.kill(os.getpid(), self._number)


def records(task: Task, count: int) -> list[Event]:
    lines = [Record(cell, "failed", None, "no").to_line(task.attempt) for cell in task.cells]
    return [Event(task.key, "record", {"line": line}) for line in lines[:count]]


def measured(task: Task, times: int) -> list[Event]:
    """Every cell done, with its record."""
    return [*records(task, 9), Event(task.key, "unit_finished", {})]


def go(
    tasks: list[Task], run: RunDirectory, backend: Scripted, **options: Any
) -> list[tuple[str, dict[str, Any]]]:
    told: list[tuple[str, dict[str, Any]]] = []

    def tell(name: str, **payload: Any) -> None:
        told.append((name, payload))

    with Driver(run.root) as driver:
        drive(tasks, run, backend, driver, tell, **options)
    return told


LOST = {"why": "its node is gone"}
DIED = {"why": "it died", "ending": "exit code 9"}
SLOW = {"why": "too slow", "ending": "too slow", "may_pass": False}


@pytest.mark.parametrize(
    ("shares", "retries", "tries", "sizes", "failed", "error"),
    [
        (True, 1, [(1, LOST)], [4, 3], 0, ""),
        (True, 0, [(0, LOST)], [4], 4, "its node is gone. To try again: --retry-failed"),
        (True, 2, [(0, LOST)] * 3, [4, 4, 4], 4, "its node is gone, 3 times in all. To try"),
        # Each that gets further is begun again; then nobody knows which cell it was.
        (True, 1, [(1, DIED), (1, DIED), (1, DIED)], [4, 3, 2, 1], 0, ""),
        (True, 0, [(1, DIED), (0, DIED)], [4, 1, 1, 1], 1, "it died, 2 times in all. To try"),
        (False, 0, [(0, DIED), (0, DIED)], [4, 1, 1, 1, 1], 1, "it died, 2 times in all. To try"),
        # What they share ends it.
        (True, 0, [(0, DIED)], [4], 4, "it died. To try again"),
        # What took too long takes as long again.
        (True, 5, [(1, SLOW), (0, SLOW)], [4, 1, 1, 1], 1, "too slow. To try again"),
    ],
)
def test_what_is_lost_is_begun_again_then_cell_by_cell_and_fails_with_the_reason(
    tasks: list[Task], run: RunDirectory, shares: bool, retries: int,
    tries: list[tuple[int, Any]], sizes: list[int], failed: int, error: str,
) -> None:  # fmt: skip
    first = tasks[0].key

    def answer(task: Task, times: int) -> list[Event]:
        if task.key != first or times > len(tries):
            return measured(task, times)
        count, how = tries[times - 1]
        return [*records(task, count), Event(task.key, "lost", how)]

    backend = Scripted(answer)
    go([replace(task, shares=shares) for task in tasks], run, backend, retries=retries)
    assert [len(task.cells) for task in backend.submitted if task.key == first] == sizes
    errors = [str(record.error) for record in run.failed()]
    assert len(errors) == 8
    assert [one.startswith(error) for one in errors if one != "no"] == [True] * failed


def test_what_another_driver_has_measured_is_not_measured_again(
    tasks: list[Task], run: RunDirectory, plan: Plan
) -> None:
    """Nor are records that are to be replaced, once somebody has done so."""
    for cell in (*tasks[0].cells, tasks[1].cells[0]):
        run.write(Record(cell, "failed", None, "by another", {}, {}))
    backend = Scripted(measured)
    told = go(tasks, run, backend)
    assert [(task.key, len(task.cells)) for task in backend.submitted] == [(tasks[1].key, 3)]
    names = [name for name, _ in told]
    assert (names.count("cell_failed"), names.count("unit_finished")) == (8, 2)
    anew = tasks_of(plan, {cell.id for cell in plan.cells}, run, None, run.heads)
    run.write(Record(anew[0].cells[0], "failed", None, "by another, later", {}, {}))
    backend = Scripted(measured)
    go(anew, run, backend)
    assert sum(len(task.cells) for task in backend.submitted) == 7


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


@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGTERM, 20.0), (signal.SIGINT, 2.0)])
def test_a_signal_leaves_time_for_checkpoints_and_no_records(
    tasks: list[Task], run: RunDirectory, number: int, seconds: float
) -> None:
    backend = Interrupted(number)
    with pytest.raises(KeyboardInterrupt):
        go(tasks, run, backend)
    assert backend.seconds == seconds
    assert run.ids() == []
