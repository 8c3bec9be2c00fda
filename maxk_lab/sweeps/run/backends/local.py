"""The local backend: units in worker processes, each failure kept to the cells that it concerns."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any, ClassVar, Self

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.backends.backend import Told
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.run.workers.pool import Pool
from maxk_lab.sweeps.run.workers.process import Worker
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.spec.execution import Execution, spelled

# So many workers in a row that end before they are ready are no accident.
FAILED_STARTS = 3


@dataclass
class _Open:
    """A task that is not done: its cells without a record, by their ids.

    `lost` counts the workers that it lost since its last record. `shared` says that what its cells
    share, if anything, has been done before; a task that has one cell for fear that it ends the
    worker is `alone`.
    """

    task: Task
    cells: dict[str, dict[str, Any]]
    shared: bool
    lost: int = 0
    alone: bool = False

    @classmethod
    def of(cls, task: Task) -> _Open:
        """Return a task of which nothing has been done."""
        return cls(task, {cell["id"]: cell for cell in task.cells}, shared=not task.shares)

    @property
    def rest(self) -> Task:
        """The task without the cells that have a record."""
        return replace(self.task, cells=tuple(self.cells.values()))

    def recorded(self, cell_id: Any) -> None:
        """Take note of a record. Raises `KeyError` for that of another cell."""
        del self.cells[cell_id]
        self.lost, self.shared = 0, True

    def cut(self) -> list[_Open]:
        """Return its cells as tasks of their own."""
        return [
            replace(self, cells={cell_id: cell}, alone=True) for cell_id, cell in self.cells.items()
        ]


class LocalBackend:
    """Worker processes of this machine, at most `jobs`, started as they are needed.

    A worker that dies takes nothing with it: its task is begun again, without the cells that have
    a record. Where it dies again before the next record, every cell left is tried alone; where no
    cell had a record, what they share is at fault, and they fail together. A cell that exceeds a
    limit has no second try.
    """

    leases_itself: ClassVar[bool] = False

    def __init__(self, run: RunDirectory, limits: Execution, jobs: int) -> None:
        del run  # a task says where its records belong
        self._pool, self._jobs, self._limits = Pool(jobs), jobs, limits
        self._waiting: deque[_Open] = deque()
        self._open: dict[Worker, _Open] = {}
        # The tasks that each unit has been cut into, and that are not done.
        self._parts: Counter[str] = Counter()
        self._failed_starts = 0
        self._leaving = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    @property
    def room(self) -> int:
        """The workers without a task."""
        return self._jobs - len(self._waiting) - len(self._open)

    def submit(self, task: Task) -> None:
        """Take a task, which a worker begins at the next call of `events`."""
        self._waiting.append(_Open.of(task))
        self._parts[task.key] += 1

    def withdraw(self, key: str) -> None:
        """End the worker that has the task."""
        self._waiting = deque(found for found in self._waiting if found.task.key != key)
        for worker, found in list(self._open.items()):
            if found.task.key == key:
                self._pool.remove(worker)
                del self._open[worker]
        del self._parts[key]

    def leave(self) -> None:
        """End every worker; what is not finished goes on later from its last checkpoint."""
        self._leaving = True

    def detach(self) -> None:
        """Raise `LabError`: the workers end with this process."""
        raise LabError("worker processes of this machine end with the run; detach needs a cluster")

    def events(self, seconds: float) -> Iterator[Told]:
        """Yield what the workers told, and what became of those that died or were too slow.

        Raises `StorageError` where records cannot be written, `RefusedError` where no worker
        starts.
        """
        if self._leaving:
            for key in list(self._parts):
                self.withdraw(key)
                yield Told(key, "left", {})
            return
        self._pool.fill(len(self._waiting))
        for worker in self._pool.workers:
            if worker.ready and worker.task is None and self._waiting:
                self._open[worker] = self._waiting.popleft()
                worker.begin(self._open[worker].rest)
        wait([worker.line for worker in self._pool.workers], seconds)
        for worker in list(self._pool.workers):
            # Asked before its last events are read: none is missed.
            alive = worker.alive
            yield from self._listen(worker)
            if not alive or not worker.alive:
                yield from self._lose(worker)
            else:
                yield from self._hold_to_limits(worker)

    def _listen(self, worker: Worker) -> Iterator[Told]:
        """Yield the events of a worker to pass on; one that tells what it cannot is killed."""
        try:
            for name, payload in worker.events():
                yield from self._noted(worker, name, payload)
        except (ValueError, TypeError, KeyError):
            # A function of the user has written to the line.
            worker.kill()

    def _noted(self, worker: Worker, name: str, payload: dict[str, Any]) -> Iterator[Told]:
        """Take note of an event, and yield what there is to pass on.

        Raises `ValueError`, `TypeError` or `KeyError` for what its worker cannot have told.
        """
        if name == "ready":
            worker.ready, self._failed_starts = True, 0
            return
        found = self._open[worker]
        if payload.pop("key") != found.task.key:
            raise ValueError("an event of another unit")
        if name == "cannot_write":
            raise StorageError(str(payload["error"]))
        if name == "unit_started":
            worker.since = time.monotonic()
            payload["cell_ids"] = list(found.cells)
        elif name in ("cell_done", "cell_failed"):
            worker.since = time.monotonic()
            found.recorded(payload["cell"])
        elif name == "unit_finished":
            if found.cells:
                raise ValueError("the end of a unit with cells left")
            worker.task = None
            yield from self._finished(self._open.pop(worker).task)
            return
        elif name != "progress" or not _tells_progress(payload):
            raise ValueError("an event that nobody tells")
        yield Told(found.task.key, name, payload)

    def _finished(self, task: Task) -> Iterator[Told]:
        """Yield that a unit has ended, if this was the last task of it."""
        self._parts[task.key] -= 1
        if not self._parts[task.key]:
            del self._parts[task.key]
            yield Told(task.key, "unit_finished", {})

    def _lose(self, worker: Worker) -> Iterator[Told]:
        """Begin what a dead worker was at again, or record that its cells end every worker."""
        self._pool.remove(worker)
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= FAILED_STARTS:
                raise RefusedError(
                    f"worker processes end before they begin to work ({worker.ending}); "
                    "see the messages above"
                )
            return
        found = self._open.pop(worker, None)
        if found is None:
            return
        found.lost += 1
        if not found.cells:
            yield from self._finished(found.task)
            return
        if found.lost == 1 and not found.alone:
            yield Told(found.task.key, "worker_died", {"ending": worker.ending})
        if found.alone or (found.lost > 1 and not found.shared):
            again = ", and again in a new one" if found.lost > 1 else ""
            yield from self._fail(
                found,
                f"the worker process died while measuring ({worker.ending}){again}: "
                "out of memory, killed, or ended by code that was called. "
                "To try again: --retry-failed",
            )
        else:
            self._begin_again(found.cut() if found.lost > 1 else [found])

    def _begin_again(self, again: list[_Open]) -> None:
        """Put a task, or what it has been cut into, before all others."""
        self._waiting.extendleft(reversed(again))
        self._parts[again[0].task.key] += len(again) - 1

    def _hold_to_limits(self, worker: Worker) -> Iterable[Told]:
        """End a worker whose cell, or whose call of a user's function, takes too long."""
        found, limits = self._open.get(worker), self._limits
        if found is None:
            return ()
        call = worker.board.running
        if limits.reward_timeout is not None and call and call[1] > limits.reward_timeout:
            return self._end(
                worker,
                f"{call[0]} took longer than execution.reward_timeout, "
                f"{spelled(limits.reward_timeout)}, in one call",
            )
        if limits.timeout is not None and time.monotonic() - worker.since > limits.timeout:
            return self._end(
                worker, f"took longer than execution.timeout, {spelled(limits.timeout)}, for a cell"
            )
        return ()

    def _end(self, worker: Worker, why: str) -> Iterator[Told]:
        self._pool.remove(worker)
        found = self._open.pop(worker)
        if found.alone or not found.shared or len(found.cells) <= 1:
            yield from self._fail(found, f"{why}. To try again: --retry-failed")
        else:
            # It is not known which of them it was.
            self._begin_again(found.cut())

    def _fail(self, found: _Open, error: str) -> Iterator[Told]:
        """Record that the cells of a task failed."""
        task = found.task
        run = RunDirectory(task.root)
        for cell_id, cell in found.cells.items():
            run.write(Record(cell, "failed", None, error, task.provenance, {}))
            yield Told(task.key, "cell_failed", {"cell": cell_id, "error": error})
        yield from self._finished(task)


def _tells_progress(payload: dict[str, Any]) -> bool:
    """Whether it is how far a phase is."""
    numbers = [payload[name] for name in ("step", "steps", "done", "of") if name in payload]
    return isinstance(payload["phase"], str) and all(type(one) in (int, float) for one in numbers)
