"""The driver: it hands units to a backend until every cell has a record, and tells the events.

Several processes may drive one run. Each leases a unit before a backend gets it, looks whether
another one has measured it meanwhile, and at the end waits for those that others still have.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from maxk_lab.sweeps.run.backends.backend import Backend, Task, Tell, Told
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.interruption import Interruption
from maxk_lab.sweeps.run.tasks import Work, keep_in_cache, remove

# Seconds for which a backend waits for something to happen.
POLL_SECONDS = 0.1
# Seconds that units have to be left in after Ctrl-C, with their records and checkpoints.
INTERRUPTED_SECONDS = 2.0
# Seconds between two looks at what other drivers have.
LOOK_SECONDS = 1.0
# Events that every driver tells of a unit: which of them it was stands with them.
_BY_DRIVER = ("unit_started", "unit_finished", "measured_elsewhere", "lost", "left")


@dataclass
class Driven:
    """Tells what a driver did not measure: the cells that others did, and why units were left."""

    elsewhere: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def drive(
    work: Work,
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
    with Interruption() as interruption:
        driving = _Driving(work, run, backend, driver, tell, retries)
        driving.drive(interruption, leaving, detach)
    return driving.driven


@dataclass
class _Open:
    """A task that a backend has: its cells without a record, by their ids, and its losses."""

    task: Task
    cells: dict[str, dict[str, Any]]
    lost: int = 0


@dataclass
class _Driving:
    work: Work
    run: RunDirectory
    backend: Backend
    driver: Driver
    tell: Tell
    retries: int
    queue: deque[Task] = field(init=False)
    open: dict[str, _Open] = field(default_factory=dict)
    # What other drivers have, by the keys; and those for which this one was told to wait.
    elsewhere: dict[str, Task] = field(default_factory=dict)
    waited_for: frozenset[str] = frozenset()
    driven: Driven = field(default_factory=Driven)
    looked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.queue = deque(self.work.tasks)

    def drive(
        self, interruption: Interruption, leaving: Callable[[], float | None], detach: bool
    ) -> None:
        left = False
        while self.queue or self.open or self.elsewhere:
            if not self.backend.here:
                interruption.check()  # what runs elsewhere is the backend's to end, or goes on
            while self.queue and self.backend.room > 0:
                self._begin(self.queue.popleft())
            if detach and not self.queue:
                self.backend.detach()
                return
            seconds = INTERRUPTED_SECONDS if interruption.noted else leaving()
            if not left and seconds is not None:
                left = True
                self.backend.leave(seconds)
            if left:
                self.queue.clear()
                self.elsewhere.clear()
            elif time.monotonic() - self.looked >= LOOK_SECONDS:
                self._look_around()
            self._listen()
        if left:
            interruption.check()

    def _listen(self) -> None:
        """Take in what the backend tells, or wait for other drivers where it has no task."""
        if self.open:
            for told in self.backend.events(POLL_SECONDS):
                self._take_in(told)
        elif self.elsewhere:
            self._tell_of_waiting()
            time.sleep(POLL_SECONDS)

    def _begin(self, task: Task) -> None:
        """Submit what nobody has measured of a task, unless another driver has it."""
        known, rest = self.open.get(task.key), task.unmeasured(self.run.heads)
        if rest.cells and not self.backend.leases_itself:
            if not self.driver.take(task.key):
                self.elsewhere[task.key] = task
                return
            # Once more: another driver may have measured some before it gave the unit free.
            rest = task.unmeasured(self.run.heads)
        self.open[task.key] = _Open(
            rest, {cell["id"]: cell for cell in rest.cells}, known.lost if known else 0
        )
        gone = [cell["id"] for cell in task.cells if cell["id"] not in self.open[task.key].cells]
        if gone:
            self.driven.elsewhere += gone
            self._tell(task, "measured_elsewhere", {"cells": gone})
        if rest.cells:
            if known is None:
                self._forget(rest)
            self.backend.submit(rest)
        else:
            self._tell(task, "unit_finished", {})
            self._end(task.key)

    def _forget(self, task: Task) -> None:
        """Remove what the cache keeps of cells that are measured anew, unless a job is at them."""
        kept = [path for cell in task.cells for path in self.work.kept.get(cell["id"], ())]
        if kept and (not self.backend.leases_itself or self.driver.holder(task.key) is None):
            for path in kept:
                remove(path)

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

    def _look_around(self) -> None:
        """Try to get what others had."""
        self.looked = time.monotonic()
        self.queue.extend(self.elsewhere.values())
        self.elsewhere.clear()

    def _take_in(self, told: Told) -> None:
        """Keep an event and pass it on."""
        if not told.key:
            self.tell(told.name, **told.payload)
        found = self.open.get(told.key)
        if found is None:
            return
        payload = dict(told.payload)
        if told.name == "cache_file":
            keep_in_cache(self.run, payload["name"], payload["data"])
            return
        if told.name in ("cell_done", "cell_failed"):
            data = payload.pop("record", None)
            if data is not None:
                self.run.append(data)
            del found.cells[payload["cell"]]
        self._tell(found.task, told.name, payload)
        if told.name == "lost":
            self._lose(found, payload["why"])
        elif told.name in ("unit_finished", "left"):
            self.driven.left += [payload["why"]] if "why" in payload else []
            self._end(told.key)

    def _lose(self, found: _Open, why: str) -> None:
        """Submit what is left of a lost task again, or record that its cells failed."""
        found.lost += 1
        if found.cells and found.lost <= self.retries:
            self.queue.appendleft(replace(found.task, cells=tuple(found.cells.values())))
            return
        times = "" if found.lost == 1 else f", {found.lost} times in all"
        error = f"{why}{times}. To try again: --retry-failed"
        for cell_id, cell in found.cells.items():
            record = Record(cell, "failed", None, error, found.task.provenance, {})
            self.run.write(record, found.task.attempt)
            self._tell(found.task, "cell_failed", {"cell": cell_id, "error": error})
        self._tell(found.task, "unit_finished", {})
        self._end(found.task.key)

    def _end(self, key: str) -> None:
        del self.open[key]
        self.driver.release(key)

    def _tell(self, task: Task, name: str, payload: dict[str, Any]) -> None:
        about = {"unit": task.label, "key": task.key}
        if name in _BY_DRIVER:
            about["driver"] = self.driver.info.id
        self.tell(name, **payload | about)
