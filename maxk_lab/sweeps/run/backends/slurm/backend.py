"""The Slurm backend: units in packs, each a job that goes on without the process that drives."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

from maxk_lab.errors import RefusedError, error_line, warn
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Task, Told
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.run.backends.slurm.placing import Place, cancel_command, place
from maxk_lab.sweeps.run.backends.slurm.watched import Open, Watched
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

# More than any sweep has: which units share a job is decided when all of them are known.
_ROOM = 10**9
# Seconds between two questions to Slurm: the first, and the most, to which they grow.
ASK_FIRST, ASK_MOST, ASK_GROWTH = 1.0, 30.0, 1.3
# Seconds between two looks into the logs, for each job.
LISTEN = 0.01
# Seconds from the end of a job until its last records and events are here, through NFS.
SETTLE = 2.0


class SlurmBackend:
    """Jobs of a Slurm cluster, each with a pack of units, which it leases on its node.

    Nothing is submitted that a job has already that waits or runs, whoever has submitted it: a
    driver goes on where another one was detached, interrupted or killed. The jobs go on without
    their driver, also when it is interrupted; `maxk-lab status --cancel` ends them.
    """

    here: ClassVar[bool] = False
    leases_itself: ClassVar[bool] = True

    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, tasks: Sequence[Task]
    ) -> None:
        del jobs, tasks  # Slurm says how many run
        queue.check_there()
        self._run, self._execution = run, execution
        self._pending: list[Open] = []
        self._jobs: dict[tuple[str, int], Watched] = {}
        self._every, self._asked, self._listened = ASK_FIRST, 0.0, 0.0
        self._leaving = False
        # What was told of the queue last.
        self._waiting: dict[str, Any] = {}

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
        self._pending.append(Open(task, {cell["id"] for cell in task.cells}))

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
        pending, self._pending = self._pending, []
        places = place(self._run, self._execution, [found.rest for found in pending])
        self._warn_of_others(places.values())
        for found in pending:
            where = places[found.task.key]
            job = self._jobs.setdefault(where.job, Watched(where))
            job.open[found.task.key] = found
        self._every, self._asked = ASK_FIRST, time.monotonic()

    def _warn_of_others(self, places: Iterable[Place]) -> None:
        """Warn of jobs that an earlier command has submitted in another way."""
        mine = self._execution.model_dump(mode="json")
        others = {place.job for place in places if place.submission.execution != mine}
        if others:
            warn(
                f"{len(others)} jobs that wait or run keep the execution options they were "
                f"submitted with; {cancel_command(self._run)} first to change them"
            )

    def _listen(self, job: Watched) -> Iterator[Told]:
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
        self, job: Watched, found: Open, name: str, payload: dict[str, Any]
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

    def _finish(self, job: Watched, found: Open) -> Iterator[Told]:
        """End a task whose job is done with it; what the job did not measure is placed again."""
        del job.open[found.task.key]
        if found.cells:
            self._pending.append(Open(found.rest, found.cells))
        else:
            yield Told(found.task.key, "unit_finished", {})

    def _look(self) -> Iterator[Told]:
        """Ask Slurm which jobs are there, and tell what became of the others."""
        watched = [job for job in self._jobs.values() if job.open]
        try:
            there = queue.jobs({job.place.submission.name for job in watched})
        except queue.QueueError:
            return  # it may be restarted at the moment; nothing is known, so nothing is lost
        finally:
            self._asked = time.monotonic()
            self._every = min(self._every * ASK_GROWTH, ASK_MOST)
        yield from self._tell_of_queue(there, watched)
        for job in watched:
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

    def _tell_of_queue(self, there: list[queue.Job], watched: list[Watched]) -> Iterator[Told]:
        """Tell how many jobs wait for each reason, and how many run, where that has changed."""
        ours = {job.place.job for job in watched}
        queued, running = Counter[str](), 0
        for job in there:
            if job.index is not None and (job.name, job.index) not in ours:
                continue
            if job.state in queue.QUEUED:
                queued["" if job.reason == "None" else job.reason] += 1
            else:
                running += not job.has_ended
        found = {"queued": dict(sorted(queued.items())), "running": running}
        if found != self._waiting and (queued or running):
            self._waiting = found
            yield Told("", "jobs", found)

    def _conclude(self, job: Watched, ended: queue.Job | None) -> Iterator[Told]:
        """Tell what became of the tasks of a job that has ended."""
        del self._jobs[job.place.job]
        for found in list(job.open.values()):
            key = found.task.key
            left = found.task.unmeasured(self._run.heads)
            for cell in sorted(found.cells - {cell["id"] for cell in left.cells}):
                record = self._run.read(cell)
                if record is not None:
                    found.cells.remove(cell)
                    yield _told_of(key, record)
            if not found.cells:
                yield from self._finish(job, found)
            elif found.passed_over:
                yield Told(key, "elsewhere", {})
            elif job.was_cancelled(ended):
                yield Told(key, "left", {"why": f"job {job.id} was cancelled"})
            elif why := job.refusal(ended):
                raise RefusedError(why)
            else:
                yield Told(key, "lost", {"why": job.ending(ended)})


def _told_of(key: str, record: Record) -> Told:
    """Return what a job would have told of a record, had it lived a moment longer."""
    cell = record.cell["id"]
    if record.status == "done":
        return Told(key, "cell_done", {"cell": cell, "seconds": record.timings.get("seconds", 0.0)})
    return Told(key, "cell_failed", {"cell": cell, "error": error_line(record.error)})
