"""The driver: it hands units to a backend until every cell has a record, and tells the events.

Several processes may drive one run. Each leases a unit before a backend gets it, looks whether
another one has measured it meanwhile, and at the end waits for those that others still have.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from maxk_lab.errors import error_line
from maxk_lab.execution.backends.backend import Backend, Event, Task, Tell
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.record import Record
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.store import Head, Store
from maxk_lab.execution.supervisor.fork_server import SIGNALS
from maxk_lab.files import write_atomically

# Seconds for which a backend waits for something to happen.
POLL_SECONDS = 0.1
# Seconds in which units write records and checkpoints after SIGTERM, and after another signal:
# a scheduler kills half a minute after SIGTERM, a person waits at a terminal.
TERMINATED_SECONDS, INTERRUPTED_SECONDS = 20.0, 2.0
# Seconds between two looks at what other drivers have.
LOOK_SECONDS = 1.0


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Yield the signals that end a run as they come, so that none comes in the middle of something.

    An exception that a handler raises may come anywhere, also while a lock is held. In another
    thread than the main one no handler can be set, and signals do what they did before.
    """
    noted: list[int] = []
    before = {}
    for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
        # One that is ignored, as under nohup, stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Open:
    """A task that is not done: its cells without a record, by their ids.

    `lost` counts how often it was lost since its last record. `shared` says that what its cells
    share, if anything, has been done before; `alone` that each is measured by itself.
    """

    task: Task
    cells: dict[str, dict[str, Any]]
    shared: bool
    lost: int = 0
    alone: bool = False

    @property
    def next(self) -> Task:
        """The task with the cells that are to be measured next."""
        cells = tuple(self.cells.values())
        return replace(self.task, cells=cells[:1] if self.alone else cells)


def drive(
    tasks: Sequence[Task],
    run: RunDirectory,
    backend: Backend,
    driver: Driver,
    tell: Tell,
    *,
    retries: int = 1,
) -> None:
    """Have every task measured by `backend`; each of their cells has a record when this returns.

    What other drivers measure meanwhile is told as what this one does.

    A unit that is lost with its worker process or its node is submitted again, without the cells
    that have a record, up to `retries` times in a row. Then every cell left of a lost worker is
    tried alone, as it is at once where one took too long: nobody knows which of them it was, and
    that one meets its limit again. Where no cell had a record, what they share is at fault, and
    they fail together.

    Units that another driver has are waited for. After a signal, units stop where they can go on
    later, without records. Raises `KeyboardInterrupt` then, and what the backend raises.
    """
    driving = _Driving(run, backend, driver, tell, retries, deque(tasks))
    leaving = False
    with interruptions() as signals:
        while driving.queue or driving.open or driving.elsewhere:
            while driving.queue and backend.room > 0:
                driving.begin(driving.queue.popleft())
            if signals and not leaving:
                leaving, terminated = True, signals[0] == signal.SIGTERM
                backend.leave(TERMINATED_SECONDS if terminated else INTERRUPTED_SECONDS)
            if leaving:
                driving.give_up()
            driving.listen()
        if leaving:
            raise KeyboardInterrupt


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
    looked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        # What news there are of cells, whoever has measured them, is in the records.
        self.store = Store(self.run.records_path)
        self.keys = {cell["id"]: task.key for task in self.queue for cell in task.cells}

    def listen(self) -> None:
        """Take in what the backend tells, or wait for other drivers where it has no task."""
        if self.open:
            for event in self.backend.events(POLL_SECONDS):
                self._take_in(event)
            self._look()
        elif self.elsewhere:
            self._tell_of_waiting()
            time.sleep(POLL_SECONDS)
        if self.elsewhere and time.monotonic() - self.looked >= LOOK_SECONDS:
            self.looked = time.monotonic()
            self.queue.extend(self.elsewhere.values())
            self.elsewhere.clear()

    def begin(self, task: Task) -> None:
        """Submit what nobody has measured of a task, unless another driver has it."""
        if (one := self.open.get(task.key)) is None:
            if task.unmeasured(self.run.heads).cells and not self.driver.take(task.key):
                self.elsewhere[task.key] = task
                return
            cells = {cell["id"]: cell for cell in task.cells}
            self.open[task.key] = one = _Open(task, cells, shared=not task.shares)
            # Another driver may have measured some before it gave the unit free.
            heads = self.run.heads
            for head in [heads[cell] for cell in cells if cell in heads]:
                self._note(head)
        if one.cells:
            self.backend.submit(one.next)
        else:
            self._go_on(one)

    def give_up(self) -> None:
        """Begin nothing more."""
        for task in self.queue:
            if task.key in self.open:
                self._close(task.key)
        self.queue.clear()
        self.elsewhere.clear()

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
        if event.name in ("unit_finished", "lost", "left"):
            self._look()
        one = self.open.get(event.key)
        if one is None:
            return
        payload = dict(event.payload)
        if event.name == "cache_file":
            write_atomically(self.run.cache_path / Path(payload["name"]).name, payload["data"])
            return
        if event.name == "progress":
            self.driver.show(event.key, payload)
        elif event.name == "record":
            self.run.append(payload["line"])
            return
        elif event.name == "unit_finished":
            self._go_on(one)
            return
        elif event.name == "lost":
            self._lose(one, **payload)
            return
        self._tell(one.task, event.name, payload)
        if event.name == "left":
            self._close(event.key)

    def _look(self) -> None:
        """Tell which cells of open tasks have a record now."""
        for head in self.store.look():
            self._note(head)

    def _note(self, head: Head) -> _Open | None:
        """Take note of a record, and return the open task that it was awaited for, if any."""
        one = self.open.get(self.keys.get(head.id, ""))
        if one is None or head.id not in one.cells or head.attempt < one.task.attempt:
            return None
        del one.cells[head.id]
        one.lost, one.shared = 0, True
        if head.status == "done":
            self._tell(one.task, "cell_done", {"cell": head.id, "seconds": head.seconds})
        else:
            record = self.run.read(head.id)
            error = error_line(record.error if record else "")
            self._tell(one.task, "cell_failed", {"cell": head.id, "error": error})
        return one

    def _lose(self, one: _Open, why: str, ending: str = "", may_pass: bool = True) -> None:
        """Have what is left of a lost task measured again, or record that its cells failed."""
        one.lost += 1
        about: dict[str, Any] = {"ending": ending} if ending else {"why": why}
        failed: tuple[dict[str, Any], ...] = ()
        if not may_pass or one.lost > self.retries or one.alone:
            if not ending or one.alone or not one.shared or len(one.cells) == 1:
                failed = one.next.cells
            else:
                one.alone, about["alone"] = True, len(one.cells)
        if one.cells and not failed:
            self._tell(one.task, "worker_died" if ending else "lost", about)
        times = f", {one.lost} times in all" if may_pass and one.lost > 1 else ""
        error = f"{why}{times}. To try again: --retry-failed"
        for cell in failed:
            record = Record(cell, "failed", None, error, one.task.provenance)
            self.run.write(record, one.task.attempt)
        self._look()
        self._go_on(one)

    def _go_on(self, one: _Open) -> None:
        """Have what is left of a task measured next, or end it."""
        if one.cells:
            self.queue.appendleft(one.task)
        else:
            self._tell(one.task, "unit_finished", {})
            self._close(one.task.key)

    def _close(self, key: str) -> None:
        del self.open[key]
        self.driver.release(key)

    def _tell(self, task: Task, name: str, payload: dict[str, Any]) -> None:
        self.tell(name, **payload | {"unit": task.label, "key": task.key})
