"""The driver: it gives units to a backend until every cell has a record.

Several drivers may share a run. A driver leases a unit before a backend gets it, omits cells that
already have a record, and waits at the end for the units of other drivers.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from maxk_lab.errors import error_line
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.record import Record
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.store import Head, Store
from maxk_lab.execution.tasks import Backend, Event, OnEvent, Task

# The signals that end a run. The driver passes them to the workers.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds that a backend waits for an event, and seconds between two reads of the store.
EVENT_SECONDS, READ_SECONDS = 0.1, 0.05
# Seconds in which workers write a checkpoint after a signal: the run ends within 5 s.
LEAVE_SECONDS = 3.0
# Seconds between two checks of the units of other drivers.
OTHERS_SECONDS = 1.0


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Yield the list of signals that ended the run; the list grows as signals arrive.

    An exception of a signal handler could arise anywhere, also while a lock is held. Outside of the
    main thread no handler can be set.
    """
    numbers: list[int] = []
    before = {}
    for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
        # A signal that is ignored, as under nohup, stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda number, _: numbers.append(number))
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Open:
    """A task that has begun: its cells without a record, by their ids.

    `faults` counts the cells that the driver has failed.
    """

    task: Task
    cells: dict[str, dict[str, Any]]
    faults: int = 0


def drive(
    tasks: Sequence[Task],
    run: RunDirectory,
    backend: Backend,
    driver: Driver,
    on_event: OnEvent,
) -> None:
    """Have `backend` measure every task; then each of their cells has a record.

    If a unit loses its worker, its first cell without a record fails: cells are measured in order.
    Another worker measures the rest. If that happens twice before any record, all cells fail.

    After a signal, units stop at a checkpoint, without records. Then this raises
    `KeyboardInterrupt`, and any error of the backend.
    """
    driving = _Driving(run, backend, driver, on_event, deque(tasks))
    leaving = False
    with interruptions() as signals:
        while driving.queue or driving.open or driving.leased:
            if signals and not leaving:
                leaving = True
                backend.leave(LEAVE_SECONDS)
            if leaving:
                driving.give_up()
            driving.begin_tasks()
            driving.listen()
        if leaving:
            raise KeyboardInterrupt


@dataclass
class _Driving:
    run: RunDirectory
    backend: Backend
    driver: Driver
    on_event: OnEvent
    queue: deque[Task]
    open: dict[str, _Open] = field(default_factory=dict)
    # The tasks that other drivers have leased, and those that an event `waiting` has named.
    leased: dict[str, Task] = field(default_factory=dict)
    announced: frozenset[str] = frozenset()
    checked: float = field(default_factory=time.monotonic)
    read: float = 0.0

    def __post_init__(self) -> None:
        # The records show which cells are measured, by this driver and by others.
        self.store = Store(self.run.records_path)
        self.keys = {cell["id"]: task.key for task in self.queue for cell in task.cells}

    def begin_tasks(self) -> None:
        """Begin waiting tasks while the backend has room."""
        while self.queue and self.backend.room > 0:
            self._begin(self.queue.popleft())

    def listen(self) -> None:
        """Handle the events of the backend, and put leased tasks back into the queue in time."""
        if self.open or self.queue:
            for event in self.backend.events(EVENT_SECONDS, len(self.queue)):
                self._handle(event)
            if time.monotonic() - self.read >= READ_SECONDS:
                self._read_records()
        elif self.leased:
            self._announce_waiting()
            time.sleep(EVENT_SECONDS)
        if self.leased and time.monotonic() - self.checked >= OTHERS_SECONDS:
            self.checked = time.monotonic()
            self.queue.extend(self.leased.values())
            self.leased.clear()

    def give_up(self) -> None:
        """Begin no further task."""
        for task in self.queue:
            if task.key in self.open:
                self._close(task.key)
        self.queue.clear()
        self.leased.clear()

    def _begin(self, task: Task) -> None:
        """Begin the unmeasured cells of a task, unless another driver has leased the task."""
        unit = self.open.get(task.key)
        if unit is None:
            if task.unmeasured(self.run.heads).cells and not self.driver.take(task.key):
                self.leased[task.key] = task
                return
            unit = _Open(task, {cell["id"]: cell for cell in task.cells})
            self.open[task.key] = unit
            # Another driver may have measured cells before it released the task.
            heads = self.run.heads
            for head in [heads[cell] for cell in unit.cells if cell in heads]:
                self._note(head)
        if unit.cells:
            self.backend.begin(replace(task, cells=tuple(unit.cells.values())))
        else:
            self._finish(unit)

    def _announce_waiting(self) -> None:
        """Send the event `waiting` with the drivers that this one waits for, once per task."""
        if self.leased.keys() <= self.announced:
            return
        holders = (self.driver.holder(key) for key in self.leased)
        drivers = sorted({str(holder) for holder in holders if holder is not None})
        if drivers:
            self.announced |= frozenset(self.leased)
            units = [task.label for task in self.leased.values()]
            self.on_event("waiting", {"units": units, "drivers": drivers})

    def _handle(self, event: Event) -> None:
        unit = self.open.get(event.key)
        if unit is None:
            return
        match event.name:
            case "unit_finished":
                self._read_records()
                self._finish(unit)
            case "lost":
                self._read_records()
                self._lose(unit, **event.payload)
            case "left":
                self._read_records()
                self._send(unit.task, "left", {})
                self._close(event.key)
            case name:
                if name == "progress":
                    self.driver.show(event.key, event.payload)
                self._send(unit.task, name, event.payload)

    def _read_records(self) -> None:
        """Send the cells of open tasks that have a new record."""
        self.read = time.monotonic()
        for head in self.store.refresh():
            self._note(head)

    def _note(self, head: Head) -> None:
        """Take the cell of a record out of its open task, and send an event."""
        unit = self.open.get(self.keys.get(head.id, ""))
        if unit is None or head.id not in unit.cells or head.attempt < unit.task.attempt:
            return
        del unit.cells[head.id]
        if head.status == "done":
            self._send(unit.task, "cell_done", {"cell": head.id, "seconds": head.seconds})
        else:
            record = self.run.read(head.id)
            error = error_line(record.error if record else "")
            self._send(unit.task, "cell_failed", {"cell": head.id, "error": error})

    def _lose(self, unit: _Open, why: str) -> None:
        """Fail the first cell without a record of a unit that lost its worker, or all cells."""
        measured = len(unit.task.cells) - len(unit.cells) - unit.faults
        shared = bool(unit.faults) and not measured
        all_fail = "No cell of the unit was measured: all of them fail. " * shared
        error = f"{why}. {all_fail}To try again: --retry-failed"
        for cell in list(unit.cells.values())[: None if shared else 1]:
            unit.faults += 1
            record = Record(cell, "failed", None, error, unit.task.provenance)
            self.run.write(record, unit.task.attempt)
        self._read_records()
        self._finish(unit)

    def _finish(self, unit: _Open) -> None:
        """End a task if every cell has a record; else put it first in the queue."""
        if unit.cells:
            self.queue.appendleft(unit.task)
        else:
            self._send(unit.task, "unit_finished", {})
            self._close(unit.task.key)

    def _close(self, key: str) -> None:
        del self.open[key]
        self.driver.release(key)

    def _send(self, task: Task, name: str, payload: dict[str, Any]) -> None:
        self.on_event(name, payload | {"unit": task.label, "key": task.key})
