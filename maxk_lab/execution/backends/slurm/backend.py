"""The Slurm backend: units in packs, each a job that goes on without the process that drives."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxk_lab.errors import RefusedError
from maxk_lab.execution.backends.backend import LEAVE_SECONDS, Backend, Event, Job, Task
from maxk_lab.execution.backends.slurm import jobs
from maxk_lab.execution.backends.slurm.pack import outcome_of
from maxk_lab.execution.leases import drivers
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.execution import Execution

# Seconds between two questions to Slurm: the first, and the most, to which they grow.
ASK_FIRST, ASK_MOST, ASK_GROWTH = 1.0, 30.0, 1.3
# Seconds between two looks at records and progress, and from the end of a job until its last
# records are here, through NFS.
LOOK, SETTLE = 0.5, 2.0
# The last bytes of what a job has printed that are looked at, and the most lines that are told.
_TAIL, _LINES = 2**12, 5


@dataclass
class _Open:
    """A task in a job, and what the job has shown of it last."""

    task: Task
    job: Job
    shown: Mapping[str, Any] | None = None


class SlurmBackend(Backend):
    """Jobs of a Slurm cluster, each with a pack of units, which it leases on its node.

    Nothing is submitted that a job has already that waits or runs, whoever has submitted it: a
    driver goes on where another one was detached, interrupted or killed. What is measured it reads
    in the records. The jobs go on without their driver: hours of waiting in a queue are not thrown
    away by Ctrl-C. `maxk-lab status --cancel` ends them.
    """

    leases_itself = True
    # Which units share a job is decided when all of them are known.
    room = 10**9

    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, tasks: Sequence[Task]
    ) -> None:
        del jobs, tasks  # Slurm says how many run
        self._run, self._execution = run, execution
        self._pending: list[Task] = []
        # Those in jobs, by their keys.
        self._open: dict[str, _Open] = {}
        # Since when jobs are no more, by their ids.
        self._gone: dict[str, float] = {}
        self._every, self._asked = ASK_FIRST, 0.0
        self._leaving = False
        # What was told of the queue last.
        self._waiting: dict[str, Any] = {}

    def submit(self, task: Task) -> None:
        """Take a task, for which a job is found at the next call of `events`."""
        self._pending.append(task)

    def leave(self, seconds: float = LEAVE_SECONDS) -> None:
        """Let the jobs go on, and tell their tasks as left."""
        self._leaving = True

    def detach(self) -> None:
        """Let the jobs go on, with one for every task."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        placed = jobs.place(self._run, self._execution, pending)
        self._open |= {task.key: _Open(task, placed[task.key]) for task in pending}
        self._every, self._asked = ASK_FIRST, time.monotonic()

    def events(self, seconds: float) -> Iterator[Event]:
        """Yield what the progress of jobs tells, and what became of jobs that ended.

        Raises `RefusedError` where Slurm does not take jobs.
        """
        if self._leaving:
            yield from (Event(key, "left", {}) for key in self._open)
            yield from (Event(task.key, "left", {}) for task in self._pending)
            self._pending, self._open = [], {}
            return
        self.detach()
        yield from self._progress()
        if time.monotonic() - self._asked >= self._every:
            yield from self._ask()
        else:
            time.sleep(max(seconds, LOOK))

    def _progress(self) -> Iterator[Event]:
        """Yield what jobs show of the tasks in hand."""
        for driver in drivers(self._run.root):
            for key, now in driver.tasks.items():
                if (one := self._open.get(key)) is None or one.shown == now:
                    continue
                if one.shown is None:
                    about = {"cell_ids": [cell["id"] for cell in one.task.cells], "job": one.job.id}
                    yield Event(key, "unit_started", about)
                if now:
                    yield Event(key, "progress", dict(now))
                one.shown = now

    def _ask(self) -> Iterator[Event]:
        """Ask Slurm which jobs are there, and tell what became of the others."""
        heads = self._run.heads
        for key, one in [*self._open.items()]:
            one.task = one.task.unmeasured(heads)
            if not one.task.cells:
                del self._open[key]
        mine = {one.job.id: one.job for one in self._open.values()}
        self._asked, self._every = time.monotonic(), min(self._every * ASK_GROWTH, ASK_MOST)
        try:
            found = jobs.queue([*mine.values()])
        except jobs.QueueError:
            return  # it may be restarted at the moment; nothing is known, so nothing is lost
        ended = {job.id: job for job in found if not job.may_run}
        queued = Counter(job.reason for job in found if job.state == "queued")
        running = len(mine) - len(ended) - queued.total()
        waiting = {"queued": dict(sorted(queued.items())), "running": running}
        if len(ended) < len(mine) and waiting != self._waiting:
            self._waiting = waiting
            yield Event("", "jobs", waiting)
        self._gone = {id_: self._gone.get(id_, self._asked) for id_ in ended}
        for id_, since in self._gone.items():
            if self._asked - since >= SETTLE:
                yield from self._conclude(ended[id_])
            else:
                self._every = ASK_FIRST

    def _conclude(self, job: Job) -> Iterator[Event]:
        """Tell what became of the tasks of a job that has ended."""
        outcome, log = outcome_of(job), Path(job.log)
        for key in [key for key, one in self._open.items() if one.job.id == job.id]:
            one = self._open.pop(key)
            # Slurm forgets at once what had not begun.
            if job.reason == "CANCELLED" or not (job.reason or outcome):
                yield Event(key, "left", {"why": f"job {job.id} was cancelled"})
            elif job.reason in jobs.BY_ITSELF and not outcome:
                raise RefusedError(
                    f"job {job.id} ended as {job.reason} on {job.host or 'its node'} before it "
                    "began: mend execution.setup, or what the node lacks. The last words of its "
                    f"log, {log}: {_last_words(log) or 'none'}"
                )
            elif outcome == "left":
                # Its time was up, and the site does not let jobs requeue themselves.
                self._pending.append(one.task)
            else:
                what = f"ended as {job.reason}" if job.reason else "is no longer known to Slurm"
                where = log.relative_to(self._run.root.absolute())
                why = f"job {job.id} {what}; its log in the folder of the run: {where}"
                yield Event(key, "lost", {"why": why})


def _last_words(path: Path) -> str:
    """Return the last lines of what a job has printed, in one line; empty where there are none."""
    try:
        text = path.read_bytes()[-_TAIL:].decode(errors="replace")
    except OSError:
        return ""
    lines = ["".join(filter(str.isprintable, line)).strip() for line in text.splitlines()]
    return "; ".join([line for line in lines if line][-_LINES:])
