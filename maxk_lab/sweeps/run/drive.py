"""The driver: it hands units to a backend until every cell has a record, and tells the events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from maxk_lab.errors import shown
from maxk_lab.files import write_atomically
from maxk_lab.sweeps.run.backends.backend import Backend, Told
from maxk_lab.sweeps.run.events import Teller
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.workers.interruption import Interruption
from maxk_lab.sweeps.run.workers.worker import Task

# Seconds for which a backend waits for something to happen.
POLL_SECONDS = 0.1


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
    tell: Teller,
    *,
    retries: int = 1,
    leaving: Callable[[], bool] = lambda: False,
    detach: bool = False,
) -> None:
    """Have every task measured by `backend`; each of their cells has a record when this returns.

    A unit that is lost with its node is submitted again, up to `retries` times. Where `leaving()`
    says that this process is to end soon, what runs is left where it can go on later, and has no
    records. With `detach` this returns as soon as the backend has every task, and they go on
    without this process. Raises `KeyboardInterrupt` after a signal, and what the backend raises.
    """
    with Interruption() as interruption:
        _Driving(run, backend, tell, retries).drive(deque(tasks), interruption, leaving, detach)


@dataclass
class _Driving:
    run: RunDirectory
    backend: Backend
    tell: Teller
    retries: int
    open: dict[str, _Open] = field(default_factory=dict)

    def drive(
        self,
        waiting: deque[Task],
        interruption: Interruption,
        leaving: Callable[[], bool],
        detach: bool,
    ) -> None:
        left = False
        while waiting or self.open:
            interruption.check()
            while waiting and self.backend.room > 0:
                self._submit(waiting.popleft())
            if detach and not waiting:
                self.backend.detach()
                return
            if leaving() and not left:
                left = True
                self.backend.leave()
            if left:
                waiting.clear()
            for told in self.backend.events(POLL_SECONDS):
                waiting.extendleft(self._take_in(told))

    def _submit(self, task: Task) -> None:
        known = self.open.get(task.key)
        self.open[task.key] = _Open(
            task, {cell["id"]: cell for cell in task.cells}, known.lost if known else 0
        )
        self.backend.submit(task)

    def _take_in(self, told: Told) -> Iterable[Task]:
        """Keep and pass on an event, and return what is to be submitted again."""
        found = self.open.get(told.key)
        if found is None:
            return ()
        payload = dict(told.payload)
        if told.name == "cache_file":
            keep_in_cache(self.run, payload["name"], payload["data"])
            return ()
        if told.name in ("cell_done", "cell_failed"):
            data = payload.pop("record", None)
            if data is not None:
                self.run.write(Record.from_bytes(data, payload["cell"]))
            del found.cells[payload["cell"]]
        self._tell(found.task, told.name, payload)
        if told.name == "lost":
            return self._lose(found, payload["why"])
        if told.name in ("unit_finished", "left"):
            del self.open[told.key]
        return ()

    def _lose(self, found: _Open, why: str) -> Iterable[Task]:
        """Return what is left of a lost task, or record that its cells failed."""
        found.lost += 1
        if found.cells and found.lost <= self.retries:
            return (replace(found.task, cells=tuple(found.cells.values())),)
        times = "" if found.lost == 1 else f", {found.lost} times in all"
        error = f"{why}{times}. To try again: --retry-failed"
        for cell_id, cell in found.cells.items():
            self.run.write(Record(cell, "failed", None, error, found.task.provenance, {}))
            self._tell(found.task, "cell_failed", {"cell": cell_id, "error": error})
        self._tell(found.task, "unit_finished", {})
        del self.open[found.task.key]
        return ()

    def _tell(self, task: Task, name: str, payload: dict[str, Any]) -> None:
        self.tell(name, **payload | {"unit": task.label, "key": task.key})


def keep_in_cache(run: RunDirectory, name: str, data: bytes) -> None:
    """Write a file that has come from a node. Raises `ValueError` for one outside of the cache."""
    if Path(name).name != name or name.startswith("."):
        raise ValueError(f"{shown(name)} is no name of a file in the cache of a run")
    write_atomically(run.cache_path / name, data)
