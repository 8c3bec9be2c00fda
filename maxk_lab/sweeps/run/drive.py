"""The driver: it hands units to a backend until every cell has a record, and tells the events.

Several processes may drive one run. Each leases a unit before a backend gets it, looks whether
another one has measured it meanwhile, and at the end waits for those that others still have.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from maxk_lab.files import write_atomically
from maxk_lab.sweeps.run.backends.backend import Backend, Event, Task, Tell
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.fork_server import SIGNALS

# Seconds for which a backend waits for something to happen.
POLL_SECONDS = 0.1
# Seconds that units have to be left in after Ctrl-C, with their records and checkpoints.
INTERRUPTED_SECONDS = 2.0
# Seconds between two looks at what other drivers have.
LOOK_SECONDS = 1.0


class Interruption:
    """Notes the signals that end a run, so that none comes in the middle of something.

    An exception that a handler raises may come anywhere, also while a lock is held. In another
    thread than the main one no handler can be set, and signals do what they did before.
    """

    def __init__(self) -> None:
        self.noted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # One that is ignored, as under nohup, stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        self.noted = True


@dataclass
class Driven:
    """Tells what a driver did not measure: the cells that others did, and why units were left."""

    elsewhere: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@dataclass
class _Open:
    """A task that a backend has: its cells without a record, by their ids, and its losses."""

    task: Task
    cells: dict[str, dict[str, Any]]
    lost: int = 0


def drive(
    tasks: Sequence[Task],
    run: RunDirectory,
    backend: Backend,
    driver: Driver,
    tell: Tell,
    *,
    retries: int = 1,
    leaving: Callable[[], float | None] = lambda: None,
    detach: bool = False,
) -> Driven:
    """Have every task measured by `backend`; each of their cells has a record when this returns.

    A unit that is lost with its node is submitted again, up to `retries` times. Those that another
    driver has are waited for. `leaving()` gives the seconds that are left once this process is to
    end, and None before: what runs is left then where it can go on later, and has no records. With
    `detach` this returns as soon as the backend has every task, and they go on without this
    process. Raises `KeyboardInterrupt` after a signal, and what the backend raises.
    """
    driving = _Driving(run, backend, driver, tell, retries, deque(tasks))
    left = False
    with Interruption() as interruption:
        while driving.queue or driving.open or driving.elsewhere:
            while driving.queue and backend.room > 0:
                driving.begin(driving.queue.popleft())
            if detach and not driving.queue:
                backend.detach()
                break
            seconds = INTERRUPTED_SECONDS if interruption.noted else leaving()
            if not left and seconds is not None:
                left = True
                backend.leave(seconds)
            if left:
                driving.queue.clear()
                driving.elsewhere.clear()
            driving.listen()
        if left and interruption.noted:
            raise KeyboardInterrupt
    return driving.driven


@dataclass
class _Driving:
    run: RunDirectory
    backend: Backend
    driver: Driver
    tell: Tell
    retries: int
    queue: deque[Task]
    open: dict[str, _Open] = field(default_factory=dict)
    # What other drivers have, by the keys; and those for which this one was told to wait.
    elsewhere: dict[str, Task] = field(default_factory=dict)
    waited_for: frozenset[str] = frozenset()
    driven: Driven = field(default_factory=Driven)
    looked: float = field(default_factory=time.monotonic)

    def listen(self) -> None:
        """Take in what the backend tells, or wait for other drivers where it has no task."""
        if self.open:
            for event in self.backend.events(POLL_SECONDS):
                self._take_in(event)
        elif self.elsewhere:
            self._tell_of_waiting()
            time.sleep(POLL_SECONDS)
        if self.elsewhere and time.monotonic() - self.looked >= LOOK_SECONDS:
            self.looked = time.monotonic()
            self.queue.extend(self.elsewhere.values())
            self.elsewhere.clear()

    def begin(self, task: Task) -> None:
        """Submit what nobody has measured of a task, unless another driver has it."""
        before, rest = self.open.get(task.key), task.unmeasured(self.run.heads)
        if rest.cells and not self.backend.leases_itself:
            if not self.driver.take(task.key):
                self.elsewhere[task.key] = task
                return
            # Once more: another driver may have measured some before it gave the unit free.
            rest = task.unmeasured(self.run.heads)
        cells = {cell["id"]: cell for cell in rest.cells}
        self.open[task.key] = _Open(rest, cells, before.lost if before else 0)
        gone = [cell["id"] for cell in task.cells if cell["id"] not in cells]
        if gone:
            self.driven.elsewhere += gone
            self._tell(task, "measured_elsewhere", {"cells": gone})
        if rest.cells:
            self.backend.submit(rest)
        else:
            self._end(task)

    def _tell_of_waiting(self) -> None:
        """Tell for whom this driver waits, with nothing else to do, unless it was told before."""
        if self.elsewhere.keys() <= self.waited_for:
            return
        holders = (self.driver.holder(key) for key in self.elsewhere)
        drivers = sorted({str(holder) for holder in holders if holder is not None})
        if drivers:
            self.waited_for |= frozenset(self.elsewhere)
            units = [task.label for task in self.elsewhere.values()]
            self.tell("waiting", units=units, drivers=drivers)

    def _take_in(self, event: Event) -> None:
        """Keep an event and pass it on."""
        if not event.key:
            self.tell(event.name, **event.payload)
        one = self.open.get(event.key)
        if one is None:
            return
        payload = dict(event.payload)
        if event.name == "cache_file":
            write_atomically(self.run.cache_path / Path(payload["name"]).name, payload["data"])
            return
        if event.name == "progress":
            self.driver.show(event.key, payload)
        elif event.name in ("cell_done", "cell_failed"):
            if (line := payload.pop("record", None)) is not None:
                self.run.append(line)
            del one.cells[payload["cell"]]
        if event.name == "unit_finished":
            self._end(one.task)
            return
        self._tell(one.task, event.name, payload)
        if event.name == "lost":
            self._lose(one, payload["why"])
        elif event.name == "left":
            self.driven.left += [payload["why"]] if "why" in payload else []
            self._close(event.key)

    def _lose(self, one: _Open, why: str) -> None:
        """Submit what is left of a lost task again, or record that its cells failed."""
        one.lost += 1
        if one.cells and one.lost <= self.retries:
            self.queue.appendleft(replace(one.task, cells=tuple(one.cells.values())))
            return
        times = "" if one.lost == 1 else f", {one.lost} times in all"
        error = f"{why}{times}. To try again: --retry-failed"
        for cell_id, cell in one.cells.items():
            self.run.write(
                Record(cell, "failed", None, error, one.task.provenance), one.task.attempt
            )
            self._tell(one.task, "cell_failed", {"cell": cell_id, "error": error})
        self._end(one.task)

    def _end(self, task: Task) -> None:
        self._tell(task, "unit_finished", {})
        self._close(task.key)

    def _close(self, key: str) -> None:
        del self.open[key]
        self.driver.release(key)

    def _tell(self, task: Task, name: str, payload: dict[str, Any]) -> None:
        self.tell(name, **payload | {"unit": task.label, "key": task.key})
