"""The Slurm backend: units in packs, each a job that goes on without the process that drives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Told
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.run.backends.slurm.log import Log
from maxk_lab.sweeps.run.backends.slurm.placing import Place, place
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.spec.execution import Execution

# More than any sweep has: which units share a job is decided when all of them are known.
_ROOM = 10**9
# Seconds between two questions to Slurm: the first, and the most, to which they grow.
ASK_FIRST, ASK_MOST, ASK_GROWTH = 1.0, 30.0, 1.3
# Seconds between two looks into the logs, for each job.
LISTEN = 0.01
# Seconds from the end of a job until its last records and events are here, through NFS.
SETTLE = 2.0


@dataclass
class _Open:
    """A task with those of its cells of which no record was told."""

    task: Task
    cells: set[str]
    # Whether the job could not have it, since a living driver had.
    passed_over: bool = False

    @property
    def rest(self) -> Task:
        """The task with these cells alone."""
        cells = tuple(cell for cell in self.task.cells if cell["id"] in self.cells)
        return replace(self.task, cells=cells)


class _Watched:
    """A job with tasks of this process: its log, and since when it is there no more."""

    def __init__(self, place: Place) -> None:
        self.place, self.log = place, Log(place.submission.events(place.index))
        self.id = place.submission.id(place.index)
        self.open: dict[str, _Open] = {}
        self.gone: float | None = None
        # What it said when it failed, and whether it was the system that refused something.
        self.failure, self.refused = "", False
        self.started = False

    def was_cancelled(self, ended: queue.Job | None) -> bool:
        """Whether somebody cancelled it; Slurm forgets at once what had not begun."""
        return not self.started if ended is None else ended.state == "CANCELLED"

    def ending(self, ended: queue.Job | None) -> str:
        """Say how the job ended, as far as it or Slurm tells, and where its log is."""
        why = "is no longer known to Slurm" if ended is None else f"ended as {ended.state}"
        told = f" ({self.failure})" if self.failure else ""
        return f"job {self.id} {why}{told}; its log: {self.place.submission.log(self.place.index)}"


class SlurmBackend:
    """Jobs of a Slurm cluster, each with a pack of units, which it leases on its node.

    Nothing is submitted that a job has already that waits or runs, whoever has submitted it: a
    driver goes on where another one was detached, interrupted or killed. The jobs go on without
    their driver, also when it is interrupted; `maxk-lab cancel` ends them.
    """

    here: ClassVar[bool] = False
    leases_itself: ClassVar[bool] = True

    def __init__(self, run: RunDirectory, execution: Execution, jobs: int) -> None:
        del jobs  # Slurm says how many run
        queue.check_there()
        self._run, self._execution = run, execution
        self._pending: list[Task] = []
        self._jobs: dict[tuple[str, int], _Watched] = {}
        self._every, self._asked, self._listened = ASK_FIRST, 0.0, 0.0
        self._leaving = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the jobs alone: hours of waiting in a queue are not thrown away by Ctrl-C."""

    @property
    def room(self) -> int:
        """Room for every task."""
        return _ROOM

    def submit(self, task: Task) -> None:
        """Take a task, for which a job is found at the next call of `events`."""
        self._pending.append(task)

    def withdraw(self, key: str) -> None:
        """Pass over what the job of the task tells of it."""
        self._pending = [task for task in self._pending if task.key != key]
        for job in self._jobs.values():
            job.open.pop(key, None)

    def leave(self, seconds: float = LEAVE_SECONDS) -> None:
        """Let the jobs go on, and tell their tasks as left."""
        del seconds
        self._leaving = True

    def detach(self) -> None:
        """Let the jobs go on, with one for every task."""
        self._place()

    def events(self, seconds: float) -> Iterator[Told]:
        """Yield what the logs of the jobs tell, and what became of jobs that have ended.

        Raises `RefusedError` where Slurm does not take jobs.
        """
        if self._leaving:
            for job in self._jobs.values():
                yield from (Told(key, "left", {}) for key in job.open)
                job.open.clear()
            return
        self._place()
        told = False
        # Each log is a file to open, perhaps on another machine.
        if time.monotonic() - self._listened >= LISTEN * len(self._jobs):
            self._listened = time.monotonic()
            for job in list(self._jobs.values()):
                for event in self._listen(job):
                    told = True
                    yield event
        if time.monotonic() - self._asked >= self._every:
            yield from self._look()
        elif not told:
            time.sleep(seconds)

    def _place(self) -> None:
        if not self._pending:
            return
        tasks, self._pending = self._pending, []
        places = place(self._run, self._execution, tasks)
        for task in tasks:
            where = places[task.key]
            job = self._jobs.setdefault(where.job, _Watched(where))
            job.open[task.key] = _Open(task, {cell["id"] for cell in task.cells})
        self._every, self._asked = ASK_FIRST, time.monotonic()

    def _listen(self, job: _Watched) -> Iterator[Told]:
        """Yield what a job has told of the tasks of this process."""
        for name, payload in job.log.new():
            if name in ("job_started", "job_failed"):
                job.started = True
                job.failure = str(payload.get("error", ""))
                job.refused = payload.get("refused") is True
            found = job.open.get(str(payload.pop("key", None)))
            for word in ("time", "unit"):
                payload.pop(word, None)
            if found is not None:
                yield from self._noted(job, found, name, payload)

    def _noted(
        self, job: _Watched, found: _Open, name: str, payload: dict[str, Any]
    ) -> Iterator[Told]:
        key = found.task.key
        if name in ("cell_done", "cell_failed"):
            if payload.get("cell") in found.cells:
                found.cells.remove(payload["cell"])
                yield Told(key, name, payload)
        elif name == "unit_started":
            yield Told(key, name, payload | {"cell_ids": sorted(found.cells), "job": job.id})
        elif name in ("progress", "worker_died"):
            yield Told(key, name, payload)
        elif name == "passed_over":
            found.passed_over = True
        elif name == "unit_finished":
            yield from self._finish(job, found)

    def _finish(self, job: _Watched, found: _Open) -> Iterator[Told]:
        """End a task whose job is done with it; what the job did not measure is placed again."""
        del job.open[found.task.key]
        if found.cells:
            self._pending.append(found.rest)
        else:
            yield Told(found.task.key, "unit_finished", {})

    def _look(self) -> Iterator[Told]:
        """Ask Slurm which jobs are there, and tell what became of the others."""
        waiting = [job for job in self._jobs.values() if job.open]
        try:
            there = queue.jobs({job.place.submission.name for job in waiting})
        except queue.QueueError:
            return  # it may be restarted at the moment; nothing is known, so nothing is lost
        finally:
            self._asked = time.monotonic()
            self._every = min(self._every * ASK_GROWTH, ASK_MOST)
        for job in waiting:
            submission = job.place.submission
            known = queue.by_index(there, submission.name, len(submission.packs))
            found = known.get(job.place.index)
            if found is not None and not found.has_ended:
                job.gone = None
            elif job.gone is None:
                job.gone, self._every = time.monotonic(), ASK_FIRST
            elif time.monotonic() - job.gone >= SETTLE:
                yield from self._listen(job)
                yield from self._conclude(job, found)

    def _conclude(self, job: _Watched, ended: queue.Job | None) -> Iterator[Told]:
        """Tell what became of the tasks of a job that has ended."""
        del self._jobs[job.place.job]
        before = job.place.submission.work(job.place.index).before
        for found in list(job.open.values()):
            key = found.task.key
            for cell in sorted(found.cells):
                record = self._run.read(cell)
                if record is not None and self._run.fingerprint(cell) != before.get(cell):
                    found.cells.remove(cell)
                    yield _told_of(key, record)
            if not found.cells or found.passed_over:
                yield from self._finish(job, found)
            elif job.was_cancelled(ended):
                yield Told(key, "left", {"why": f"job {job.id} was cancelled"})
            elif job.refused:
                raise RefusedError(f"job {job.id}: {job.failure}")
            else:
                yield Told(key, "lost", {"why": job.ending(ended)})


def _told_of(key: str, record: Record) -> Told:
    """Return what a job would have told of a record, had it lived a moment longer."""
    cell = record.cell["id"]
    if record.status == "done":
        return Told(key, "cell_done", {"cell": cell, "seconds": record.timings.get("seconds", 0.0)})
    error = (record.error or "").strip().splitlines() or [""]
    return Told(key, "cell_failed", {"cell": cell, "error": error[-1]})
