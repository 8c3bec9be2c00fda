"""Local execution: units in worker processes, each failure kept to the cells that it concerns."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait

from maxk_lab.errors import RefusedError
from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.events import Teller
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.run.workers.guard import Guard
from maxk_lab.sweeps.run.workers.interruption import Interruption
from maxk_lab.sweeps.run.workers.process import Worker, stop
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.spec.execution import Execution, spelled

POLL_SECONDS = 0.1
# So many workers in a row that end before they are ready are no accident.
FAILED_STARTS = 3


@dataclass(frozen=True)
class _Open:
    """A task that is not done: how often its worker was lost since its last record.

    `shared` says that what its cells share has been done before; a task that has one cell for fear
    that it ends the worker is `alone`.
    """

    task: Task
    lost: int = 0
    shared: bool = False
    alone: bool = False


def run_tasks(
    tasks: Sequence[Task], run: RunDirectory, *, jobs: int, tell: Teller, limits: Execution
) -> None:
    """Run every task in `jobs` worker processes; each cell has a record when this returns.

    A worker that dies takes nothing with it: its task is begun again, without the cells that have
    a record. Where it dies again before the next record, every cell left is tried alone; where no
    cell had a record, what they share is at fault, and they fail together. A cell that exceeds a
    limit has no second try. Raises `StorageError` where records cannot be written, `RefusedError`
    where no worker starts, and `KeyboardInterrupt` after a signal; the workers have ended then.
    """
    if tasks:
        with Interruption() as interruption, _Pool(min(jobs, len(tasks))) as pool:
            _Execution(pool, run, tell, limits).run(tasks, interruption)


class _Pool:
    """The workers that run, at most `size`, started as they are needed."""

    def __init__(self, size: int) -> None:
        self._size, self._guard = size, Guard()
        self.workers: list[Worker] = []

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *error: object) -> None:
        stop(self.workers)
        self._guard.close()

    def fill(self, waiting: int) -> None:
        """Start workers, if there is work for more of them."""
        idle = sum(worker.task is None for worker in self.workers)
        for _ in range(min(self._size - len(self.workers), waiting - idle)):
            try:
                self.workers.append(Worker(self._guard))
            except OSError as error:
                if self.workers:
                    return  # those that run do the work
                raise RefusedError(f"no worker process can be started: {error.strerror}") from error

    def remove(self, worker: Worker) -> None:
        """End a worker, of which nothing good is to be expected."""
        worker.kill()
        self.workers.remove(worker)


class _Execution:
    def __init__(self, pool: _Pool, run: RunDirectory, tell: Teller, limits: Execution) -> None:
        self._pool, self._run, self._tell, self._limits = pool, run, tell, limits
        self._waiting: deque[_Open] = deque()
        self._open: dict[Worker, _Open] = {}
        # The tasks that each unit has been cut into, and that are not done.
        self._parts: Counter[int] = Counter()
        self._failed_starts = 0

    def run(self, tasks: Sequence[Task], interruption: Interruption) -> None:
        self._waiting.extend(map(_Open, tasks))
        self._parts.update(task.key for task in tasks)
        while self._waiting or self._open:
            interruption.check()
            self._pool.fill(len(self._waiting))
            for worker in self._pool.workers:
                if worker.ready and worker.task is None and self._waiting:
                    self._open[worker] = self._waiting.popleft()
                    worker.begin(self._open[worker].task)
            wait([worker.pipe for worker in self._pool.workers], POLL_SECONDS)
            for worker in list(self._pool.workers):
                # Asked before its last events are read: none is missed.
                alive = worker.alive
                for name, payload in worker.events():
                    self._follow(worker, name, payload)
                if not alive or not worker.alive:
                    self._lose(worker)
                else:
                    self._hold_to_limits(worker)

    def _follow(self, worker: Worker, name: str, payload: dict[str, object]) -> None:
        """Take note of an event, and pass it on."""
        if name == "ready":
            worker.ready, self._failed_starts = True, 0
            return
        if name == "cannot_write":
            raise StorageError(str(payload["error"]))
        if name in ("cell_done", "cell_failed"):
            worker.since = time.monotonic()
            self._open[worker] = _without(self._open[worker], str(payload["cell"]))
        elif name == "unit_finished":
            worker.task = None
            self._finish(self._open.pop(worker).task)
            return
        self._tell(name, **payload)

    def _finish(self, task: Task) -> None:
        """Tell that a unit has ended, if this was the last task of it."""
        self._parts[task.key] -= 1
        if not self._parts[task.key]:
            self._tell("unit_finished", unit=task.label, key=task.key)

    def _lose(self, worker: Worker) -> None:
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
        found = replace(found, lost=found.lost + 1)
        if not found.task.cells:
            self._finish(found.task)
            return
        if found.lost == 1 and not found.alone:
            self._tell("worker_died", units=[found.task.label], ending=worker.ending)
        if found.alone or (found.lost > 1 and not found.shared):
            self._fail(
                found.task,
                f"the worker process died while measuring ({worker.ending}), and again in a new "
                "one: out of memory, killed, or ended by code that was called. "
                "To try again: --retry-failed",
            )
        else:
            self._begin_again(found, alone=found.lost > 1)

    def _begin_again(self, found: _Open, *, alone: bool) -> None:
        """Put a task back, before all others, or its cells as tasks of their own."""
        parts = [(cell,) for cell in found.task.cells] if alone else [found.task.cells]
        again = [
            replace(found, task=replace(found.task, cells=cells), alone=alone) for cells in parts
        ]
        self._waiting.extendleft(reversed(again))
        self._parts[found.task.key] += len(again) - 1

    def _hold_to_limits(self, worker: Worker) -> None:
        """End a worker whose cell, or whose call of a user's function, takes too long."""
        found, limits = self._open.get(worker), self._limits
        if found is None:
            return
        call = worker.board.running
        if limits.reward_timeout is not None and call and call[1] > limits.reward_timeout:
            self._end(
                worker,
                f"{call[0]} took longer than execution.reward_timeout, "
                f"{spelled(limits.reward_timeout)}, in one call",
            )
        elif limits.timeout is not None and time.monotonic() - worker.since > limits.timeout:
            self._end(
                worker, f"took longer than execution.timeout, {spelled(limits.timeout)}, for a cell"
            )

    def _end(self, worker: Worker, why: str) -> None:
        self._pool.remove(worker)
        found = self._open.pop(worker)
        if found.alone or not found.shared or len(found.task.cells) == 1:
            self._fail(found.task, f"{why}. To try again: --retry-failed")
        else:
            # It is not known which of them it was.
            self._begin_again(found, alone=True)

    def _fail(self, task: Task, error: str) -> None:
        """Record that the cells of a task failed."""
        about = {"unit": task.label, "key": task.key}
        for cell in task.cells:
            self._run.write(Record(cell, "failed", None, error, task.provenance, {}))
            self._tell("cell_failed", cell=cell["id"], error=error, **about)
        self._finish(task)


def _without(found: _Open, cell_id: str) -> _Open:
    """Return a task without a cell that has its record now."""
    cells = tuple(cell for cell in found.task.cells if cell["id"] != cell_id)
    return replace(found, task=replace(found.task, cells=cells), lost=0, shared=True)
