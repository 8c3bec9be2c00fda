"""The driver with a scripted backend: lost tasks, other drivers, and the end by a signal."""

import os
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from maxk_lab.execution import drive as drive_module
from maxk_lab.execution.drive import drive
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.execution.run import Run, tasks_of
from maxk_lab.execution.tasks import Event, Task

Answer = Callable[[Task, int], list[Event]]


class Scripted:
    """A backend for two tasks that answers each as `answer(task, times begun)` says."""

    def __init__(self, answer):
        self._answer = answer
        self.begun: list[Task] = []
        self._due: list[list[Event]] = []
        self.seconds = 0.0

    @property
    def room(self):
        return 2 - len(self._due)

    def begin(self, task):
        self.begun.append(task)
        times = sum(one.key == task.key for one in self.begun)
        self._due.append(self._answer(task, times))

    def events(self, seconds, waiting):
        yield from self._due.pop(0)

    def leave(self, seconds):
        self.seconds = seconds


@pytest.fixture
def tasks(plan, run):
    return tasks_of(Run(plan, run), {cell.id for cell in plan.cells}, None, run.heads)


def records(task, count):
    """Append records of the first cells, as a worker does."""
    lines = [Record(cell, "failed", None, "no").to_line(task.attempt) for cell in task.cells]
    RunDirectory(task.root).append(b"".join(lines[:count]))
    return []


def measured(task, times):
    """Append a record of every cell."""
    return [*records(task, 9), Event(task.key, "unit_finished", {})]


def go(tasks, run, backend):
    """Drive the tasks; return the names of the events."""
    names: list[str] = []
    with Driver(run.root) as driver:
        drive(tasks, run, backend, driver, lambda name, _: names.append(name))
    return names


ALONE = "it died. To try again: --retry-failed"
SHARED = ALONE.replace(". ", ". No cell of the unit was measured: all of them fail. ")


@pytest.mark.parametrize(
    ("losses", "sizes", "faults"),
    [
        ([1], [4, 2], {ALONE: 1}),
        ([1, 1], [4, 2], {ALONE: 2}),
        ([0, 2], [4, 3], {ALONE: 2}),
        ([4], [4], {}),
        # The work that all cells share is at fault.
        ([0, 0], [4, 3], {ALONE: 1, SHARED: 3}),
    ],
)
def test_the_first_cell_without_a_record_of_a_lost_unit_fails_and_the_rest_is_measured(
    tasks, run, losses, sizes, faults
):
    """`losses` are the numbers of records that the workers write before they are lost."""
    first = tasks[0].key

    def answer(task, times):
        if task.key != first or times > len(losses):
            return measured(task, times)
        return [*records(task, losses[times - 1]), Event(task.key, "lost", {"why": "it died"})]

    backend = Scripted(answer)
    go(tasks, run, backend)
    assert [len(task.cells) for task in backend.begun if task.key == first] == sizes
    assert len(run.ids()) == 8
    assert Counter(r.error for r in run.failed()) == faults | {"no": 8 - sum(faults.values())}


def test_what_another_driver_has_measured_is_not_measured_again(tasks, run, plan):
    """Nor are records that are to be replaced, once somebody has done so."""
    for cell in (*tasks[0].cells, tasks[1].cells[0]):
        run.write(Record(cell, "failed", None, "by another", {}, {}))
    backend = Scripted(measured)
    names = go(tasks, run, backend)
    assert [(task.key, len(task.cells)) for task in backend.begun] == [(tasks[1].key, 3)]
    assert (names.count("cell_failed"), names.count("unit_finished")) == (8, 2)
    again = tasks_of(Run(plan, run), {cell.id for cell in plan.cells}, None, run.heads)
    run.write(Record(again[0].cells[0], "failed", None, "by another, later", {}, {}))
    backend = Scripted(measured)
    go(again, run, backend)
    assert sum(len(task.cells) for task in backend.begun) == 7


def test_a_unit_of_another_driver_is_waited_for_with_one_event_and_taken_when_it_is_free(
    tasks, run, monkeypatch
):
    monkeypatch.setattr(drive_module, "OTHERS_SECONDS", 0.05)
    first, second = tasks
    backend, waits = Scripted(measured), []
    with Driver(run.root) as holder, Driver(run.root) as driver:
        assert holder.take(first.key)

        def release(name, payload):
            if name == "waiting":
                waits.append((payload["units"], *payload["drivers"]))
                holder.release(first.key)

        drive(tasks, run, backend, driver, release)
        assert waits == [([first.label], str(holder.info))]
    assert [task.key for task in backend.begun] == [second.key, first.key]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_time_for_checkpoints_and_no_records(tasks, run, number):
    class Interrupted(Scripted):
        """It gets a signal while it measures, and then leaves its tasks."""

        def events(self, seconds, waiting):
            if self.seconds:
                yield from super().events(seconds, waiting)
            else:
                os.kill(os.getpid(), number)

    backend = Interrupted(lambda task, times: [Event(task.key, "left", {})])
    with pytest.raises(KeyboardInterrupt):
        go(tasks, run, backend)
    assert 0 < backend.seconds < 5
    assert run.ids() == []
