"""The local backend: units in worker processes, each failure kept to the cells that it concerns."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any, ClassVar, Self

from maxk_lab.errors import LabError, RefusedError, warn
from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Told
from maxk_lab.sweeps.run.backends.open_task import OpenTask
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.store import Head
from maxk_lab.sweeps.run.workers.devices import Devices
from maxk_lab.sweeps.run.workers.limits import Excess, Limits
from maxk_lab.sweeps.run.workers.pool import Pool
from maxk_lab.sweeps.run.workers.process import Worker
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.spec.execution import Execution

# So many workers in a row that end before they are ready are no accident.
FAILED_STARTS = 3


class LocalBackend:
    """Worker processes of this machine, at most `jobs`, started as they are needed.

    A worker that dies, or takes more memory than it may, takes nothing with it: its task is begun
    again, without the cells that have a record, as often as `execution.retries` says. Then every
    cell left is tried alone, as it is at once where one took too long: nobody knows which of them
    it was, and that one meets its limit again. A cell that is alone or the last one has no further
    try at a limit of time. Where no cell had a record, what they share is at fault, and they fail
    together. Raises `LabError` where there is no device for any worker.
    """

    here: ClassVar[bool] = True
    leases_itself: ClassVar[bool] = False

    def __init__(self, run: RunDirectory, execution: Execution, jobs: int) -> None:
        del run  # a task says where its records belong
        self._devices = Devices(execution.gpus)
        most = self._devices.most()
        if most is not None and most < jobs:
            warn(f"execution.gpus leaves devices for {most} of {jobs} workers: no more are started")
            jobs = most
        self._pool, self._jobs = Pool(jobs, self._devices), jobs
        self._limits, self._retries = Limits(execution), execution.retries
        self._waiting: deque[OpenTask] = deque()
        self._open: dict[Worker, OpenTask] = {}
        # The tasks that each unit has been cut into, and that are not done.
        self._parts: Counter[str] = Counter()
        self._failed_starts = 0
        # The time by which every worker has left.
        self._leaving: float | None = None

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
        self._waiting.append(OpenTask.of(task))
        self._parts[task.key] += 1

    def withdraw(self, key: str) -> None:
        """End the worker that has the task."""
        self._waiting = deque(found for found in self._waiting if found.task.key != key)
        for worker, found in list(self._open.items()):
            if found.task.key == key:
                self._pool.remove(worker)
                del self._open[worker]
        del self._parts[key]

    def leave(self, seconds: float = LEAVE_SECONDS) -> None:
        """Ask every worker to write a checkpoint and to leave; end those that take longer."""
        self._leaving = time.monotonic() + seconds
        for worker in self._open:
            worker.board.leave()

    def detach(self) -> None:
        """Raise `LabError`: the workers end with this process."""
        raise LabError("worker processes of this machine end with the run; detach needs a cluster")

    def events(self, seconds: float) -> Iterator[Told]:
        """Yield what the workers told, and what became of those that died or were too slow.

        Raises `StorageError` where records cannot be written, `RefusedError` where no worker
        starts.
        """
        if self._leaving is None:
            self._begin()
        else:
            yield from self._left()
        wait([worker.line for worker in self._pool.workers], seconds)
        self._limits.look(self._open)
        for worker in list(self._pool.workers):
            # Asked before its last events are read: none is missed.
            alive = worker.alive
            yield from self._listen(worker)
            if not alive or not worker.alive:
                yield from self._lose(worker)
            elif worker in self._open and (excess := self._limits.excess(worker)) is not None:
                self._pool.remove(worker)
                yield from self._end(self._open.pop(worker), excess)

    def _begin(self) -> None:
        """Give what waits to workers, of which new ones are started if they are needed."""
        wanted = self._devices.wanted_by
        on_device = any(wanted(found.task.on_device) for found in self._waiting)
        self._pool.fill(len(self._waiting), on_device=on_device)
        for worker in list(self._pool.workers):
            if not worker.ready or worker.task is not None or not self._waiting:
                continue
            if worker.devices == "" and wanted(self._waiting[0].task.on_device):
                self._pool.remove(worker)  # one that sees a device takes its place
                continue
            self._open[worker] = self._waiting.popleft()
            worker.begin(self._open[worker].rest)

    def _left(self) -> Iterator[Told]:
        """Yield which tasks no worker has any more."""
        self._waiting.clear()
        assert self._leaving is not None
        late = time.monotonic() >= self._leaving
        had = {found.task.key for found in self._open.values()}
        for key in [key for key in self._parts if late or key not in had]:
            self.withdraw(key)
            yield Told(key, "left", {})

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
            payload["record"] = payload["record"].encode()
            if Head.of_line(payload["record"]).id != payload["cell"]:
                raise ValueError("the record of another cell")
            found.recorded(payload["cell"])
        elif name == "unit_finished":
            if found.cells:
                raise ValueError("the end of a unit with cells left")
            worker.task = None
            yield from self._finished(self._open.pop(worker).task)
            return
        elif name == "left":
            if self._leaving is None:
                raise ValueError("nobody asked to leave")
            worker.task = None
            del self._open[worker]
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
        if not found.cells:
            yield from self._finished(found.task)
            return
        again = ", and again in a new one" if found.lost else ""
        why = (
            f"the worker process died while measuring ({worker.ending}){again}: "
            "out of memory, killed, or ended by code that was called"
        )
        yield from self._end(found, Excess(why, may_pass=True), ending=worker.ending)

    def _end(self, found: OpenTask, excess: Excess, *, ending: str = "") -> Iterator[Told]:
        """Begin again what a worker was at that was lost, or record that its cells failed.

        Where it is not known which of them was at fault, each is tried alone.
        """
        found.lost += 1
        if excess.may_pass and found.lost <= self._retries and not found.alone:
            yield Told(found.task.key, "worker_died", {"ending": ending or excess.why})
            self._begin_again([found])
        elif found.alone or not found.shared or len(found.cells) <= 1:
            yield from self._fail(found, f"{excess.why}. To try again: --retry-failed")
        else:
            left = {"ending": ending or excess.why, "alone": len(found.cells)}
            yield Told(found.task.key, "worker_died", left)
            self._begin_again(found.cut())

    def _begin_again(self, again: list[OpenTask]) -> None:
        """Put a task, or what it has been cut into, before all others."""
        self._waiting.extendleft(reversed(again))
        self._parts[again[0].task.key] += len(again) - 1

    def _fail(self, found: OpenTask, error: str) -> Iterator[Told]:
        """Yield that the cells of a task failed, with their records."""
        task = found.task
        for cell_id, cell in found.cells.items():
            record = Record(cell, "failed", None, error, task.provenance, {})
            told = {"cell": cell_id, "error": error, "record": record.to_line(task.attempt)}
            yield Told(task.key, "cell_failed", told)
        yield from self._finished(task)


def _tells_progress(payload: dict[str, Any]) -> bool:
    """Whether it is how far a phase is."""
    numbers = [payload[name] for name in ("step", "steps", "done", "of") if name in payload]
    return isinstance(payload["phase"], str) and all(type(one) in (int, float) for one in numbers)
