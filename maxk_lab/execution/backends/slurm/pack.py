"""The work of a job on its node: the units of its pack, by the supervisor of every machine."""

from __future__ import annotations

import json
import logging
import math
import signal
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from maxk_lab.execution.backends.backend import LEAVE_SECONDS, Job, Task
from maxk_lab.execution.drive import drive
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.provenance import collect_provenance
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.supervisor.local import LocalBackend
from maxk_lab.files import StorageError, write_atomically
from maxk_lab.installed import close_current_folder
from maxk_lab.sweep_file.backends import slurm_seconds
from maxk_lab.sweep_file.execution import Execution

# It prints, with the time, what a job does.
_log = logging.getLogger("submitit")
# What Slurm sends to all of a job: that its time is nearly up (submitit may be told to use the
# first); `scancel`, a preemption or a requeue by Slurm; and Ctrl-C of an interactive one.
_TIME_IS_UP, _ENDS = {signal.SIGUSR1, signal.SIGUSR2}, {signal.SIGTERM, signal.SIGINT}
# Seconds that units have after SIGTERM: Slurm kills what is left after half a minute, most often.
_KILLED_SOON = 20.0
Outcome = Literal["begun", "left", ""]


@dataclass
class Pack:
    """A job of a submission, which submitit calls at each start: there may be several of them.

    Before its time limit Slurm sends SIGUSR2. When the units are left submitit hears of it, calls
    `checkpoint`, and requeues the job with what that returns. SIGTERM, that of `scancel`, of a
    preemption or of a requeue by Slurm, it passes over: here the job leaves as well, and whether it
    comes back is not for it to say.
    """

    folder: Path
    index: int
    tasks: tuple[Task, ...]
    execution: Execution
    # The signals that have come.
    _came: set[int] = field(default_factory=set, init=False)

    def __call__(self) -> None:
        """Measure what has no record yet of the units; what was left before goes on."""
        close_current_folder()
        self._note("begun")
        before = {one: signal.signal(one, self._take) for one in (*_TIME_IS_UP, *_ENDS)}
        # What is started here does not hear them: workers leave when the job asks them.
        signal.pthread_sigmask(signal.SIG_BLOCK, before)
        try:
            self._drive()
        except KeyboardInterrupt:  # a thread of some library has taken it
            self._take(signal.SIGTERM)
        again, self._came = self._came & _TIME_IS_UP, self._pending()
        if self._came:
            self._note("left")
        for one in _TIME_IS_UP:
            signal.signal(one, before[one])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
        for number in again:
            signal.raise_signal(number)

    def checkpoint(self) -> Any:
        """Return what is to be requeued, if anything is."""
        from submitit.core.utils import DelayedSubmission

        ends = self._came & _ENDS or not self._rest()
        return None if ends else DelayedSubmission(replace(self))

    def _take(self, number: int, frame: object = None) -> None:
        self._came.add(number)

    def _pending(self) -> set[int]:
        """Return the signals that have come, whether or not they are blocked."""
        return self._came.union(signal.sigpending())

    def _seconds(self) -> float | None:
        """Return the seconds that units have to leave in once a signal has come."""
        came = self._pending()
        if came & _ENDS:
            return _KILLED_SOON
        # Some of the time is for the records of what cannot go on, and for the requeue.
        return min(LEAVE_SECONDS, seconds_to_leave(self.execution) / 2) if came else None

    def _drive(self) -> None:
        run, provenance = self._run, collect_provenance()
        rest = [replace(task, provenance=provenance) for task in self._rest()]
        workers, retries = workers_of(self.execution), self.execution.retries
        with (
            Driver(run.root) as driver,
            LocalBackend(run, self.execution, workers, rest) as backend,
        ):
            about = (rest, run, backend, driver, _print)
            drive(*about, retries=retries, leaving=self._seconds)

    def _note(self, outcome: Outcome) -> None:
        """Write what has become of the job, for who waits for it."""
        with suppress(StorageError):
            write_atomically(self.folder / f"{self.index}.json", json.dumps(outcome).encode())

    @property
    def _run(self) -> RunDirectory:
        return RunDirectory(self.folder.parents[1])

    def _rest(self) -> list[Task]:
        """Return the tasks with a cell that has no new record."""
        heads = self._run.heads
        return [task for task in self.tasks if task.unmeasured(heads).cells]


def _print(name: str, **payload: Any) -> None:
    if name != "progress":
        about = {key: value for key, value in payload.items() if key != "key"}
        _log.info("%s %s", name, json.dumps(about, default=str))


def outcome_of(job: Job) -> Outcome:
    """Return whether a job has begun, or left its units in time; empty before it has begun."""
    path = Path(job.log).parent / f"{job.id.partition('_')[2] or 0}.json"
    try:
        outcome: Outcome = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return ""
    return outcome


def workers_of(execution: Execution) -> int:
    """Return the units that a job measures at a time: as many as share its GPU."""
    gpus = execution.gpus or 0
    return math.floor(1 / gpus) if 0 < gpus < 1 else 1


def seconds_to_leave(execution: Execution) -> int:
    """Return how long before its time limit a job is told to leave: at half of it at the latest."""
    slurm = execution.parameters
    known = slurm["time"] and "time" not in slurm["options"]
    return int(min(slurm["signal"], slurm_seconds(slurm["time"]) / 2 if known else math.inf))
