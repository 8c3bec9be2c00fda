"""The work of a job on its node: the units of its pack, by the supervisor of every machine."""

from __future__ import annotations

import json
import logging
import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.files import StorageError, write_atomically
from maxk_lab.installed import close_current_folder
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Task
from maxk_lab.sweeps.run.drive import drive
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.local import LocalBackend
from maxk_lab.sweeps.spec.execution import Execution

# It prints, with the time, what a job does.
_log = logging.getLogger("submitit")
# What Slurm sends to all of a job: that its time is nearly up (submitit may be told to use the
# first); `scancel`, a preemption or a requeue by Slurm; and Ctrl-C of an interactive one.
_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
# Seconds that units have after SIGTERM: Slurm kills what is left after half a minute, most often.
_KILLED_SOON = 20.0
_TICK = 0.1


@dataclass
class Pack:
    """A job of a submission, which submitit calls at each start: there may be several of them.

    Before its time limit Slurm sends SIGUSR2: submitit calls `checkpoint`, and requeues the job
    with what that returns. SIGTERM, that of `scancel`, of a preemption or of a requeue by Slurm, it
    passes over: here the job leaves as well, and whether it comes back is not for it to say.
    `reached` is the progress of each unit that the start before has left, without a record since.
    """

    folder: Path
    index: int
    tasks: tuple[Task, ...]
    execution: Execution
    reached: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    # The last progress of the units that were begun and are not finished, and those in hand.
    _shown: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False)
    _hand: set[str] = field(default_factory=set, init=False)
    # How many starts ended in the middle of each unit: those of nodes that were lost.
    _losses: Counter[str] = field(default_factory=Counter, init=False)
    # The seconds that units have to leave in once a signal has come, and whether it is one of those
    # after which the job does not come back by itself.
    _seconds: float | None = field(default=None, init=False)
    _ends: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)
    _worked: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)
    _error: BaseException | None = field(default=None, init=False)

    def __call__(self) -> None:
        """Measure what has no record yet of the units; what was left before goes on."""
        close_current_folder()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        # In a thread, since in another one than the main one no signal interrupts what it is at.
        threading.Thread(target=self._work, daemon=True).start()
        self._begun = True
        self._wait()

    def checkpoint(self) -> Any:
        """Leave the units with checkpoints; return what is to be requeued, if anything is.

        It is called in the handler of a signal, in the middle of anything in the main thread.
        """
        from submitit.core.utils import DelayedSubmission

        if self._begun:
            # Some of the time is for the records of what cannot go on, and for the requeue.
            self._seconds = min(LEAVE_SECONDS, int(self.execution.parameters["signal"]) / 2)
            self._wait()
            if self._ends or not self._rest():
                return None
        return DelayedSubmission(replace(self, reached=self.reached | self._shown))

    def _end(self, number: int, frame: object) -> None:
        self._seconds, self._ends = _KILLED_SOON, True

    def _wait(self) -> None:
        """Wait for the end of the work, and raise what it raised."""
        while not self._over:
            # Not for a lock: a handler that waits for the same one would never get it.
            time.sleep(_TICK)
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        # What this thread starts does not hear the signals: workers leave when the job asks them.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            before = outcome_of(self.folder, self.index)
            self._losses = Counter(before.get("losses", {}))
            self._losses.update(before.get("hand", ()))
            self._tell_outcome()
            self._measure()
            # One that leaves before it has begun anything would do so again.
            self._tell_outcome(left=self._seconds is not None and self._worked)
        except BaseException as error:
            self._tell_outcome(error=str(error) if isinstance(error, LabError) else "")
            self._error = error
        finally:
            self._over = True

    def _measure(self) -> None:
        """Measure until all is done, or what is left has been left."""
        retries = self.execution.retries
        for task in self._rest():
            if (losses := self._losses[task.key]) > retries:
                times = "" if losses == 1 else f", {losses} times in all"
                self._fail(task, f"the node was lost while it measured this{times}")
        provenance = collect_provenance()
        rest = [replace(task, provenance=provenance) for task in self._rest()]
        workers = workers_of(self.execution)
        with (
            Driver(self._run.root) as driver,
            LocalBackend(self._run, self.execution, workers, rest) as backend,
        ):
            drive(
                *(rest, self._run, backend, driver, self._tell),
                retries=retries,
                leaving=self._leaving,
            )
        if self._seconds is None or self._ends:
            return
        for task in self._rest():
            if task.key in self._shown and self._stands_still(task.key):
                self._fail(
                    task,
                    "it came no further in a whole job than in the one before: "
                    "give execution.time more, or execution.signal less",
                )

    def _leaving(self) -> float | None:
        """Return how long units may take to leave once a signal has come, and None before."""
        if self._seconds is not None and self._hand:
            # What ends from now on is no loss.
            self._hand.clear()
            self._tell_outcome()
        return self._seconds

    def _stands_still(self, key: str) -> bool:
        """Return whether a unit came no further in this start than in the one before."""
        before, now = self.reached.get(key), self._shown[key]
        if before is None or before.get("phase") != now.get("phase"):
            return False
        return _step(now) <= _step(before)

    def _fail(self, task: Task, why: str) -> None:
        """Give failed records to what has none of a unit."""
        error = f"{why}. To try again: --retry-failed"
        for cell in task.unmeasured(self._run.heads).cells:
            self._run.write(Record(cell, "failed", None, error, task.provenance), task.attempt)
            self._tell("cell_failed", unit=task.label, key=task.key, cell=cell["id"], error=error)

    def _tell(self, name: str, **payload: Any) -> None:
        """Take in an event of a unit, and print it."""
        key = payload.pop("key", None)
        if name in ("unit_started", "progress"):
            self._worked = True
            self._shown[key] = payload if name == "progress" else {}
        elif name in ("cell_done", "cell_failed"):
            self.reached.pop(key, None)
        elif name == "unit_finished":
            self._shown.pop(key, None)
        if name in ("unit_started", "unit_finished", "left"):
            (self._hand.add if name == "unit_started" else self._hand.discard)(key)
            self._tell_outcome()
        if name != "progress":
            payload.pop("driver", None)
            _log.info("%s %s", name, json.dumps(payload, default=str))

    def _tell_outcome(self, *, left: bool = False, error: str = "") -> None:
        """Write what has become of the job, for its next start and for who waits for it."""
        outcome = {"left": left, "error": error, "hand": [*self._hand], "losses": self._losses}
        with suppress(StorageError):
            write_atomically(self.folder / f"{self.index}.json", json.dumps(outcome).encode())

    @cached_property
    def _run(self) -> RunDirectory:
        return RunDirectory(self.folder.parents[1])

    def _rest(self) -> list[Task]:
        """Return the tasks with a cell that has no new record."""
        heads = self._run.heads
        return [task for task in self.tasks if task.unmeasured(heads).cells]


def outcome_of(folder: Path, index: int) -> dict[str, Any]:
    """Return what a job says has become of it, as `left` and `error`; empty before it has begun."""
    try:
        return dict(json.loads((folder / f"{index}.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def workers_of(execution: Execution) -> int:
    """Return the units that a job measures at a time: as many as share its GPU."""
    gpus = execution.gpus or 0
    return math.floor(1 / gpus) if 0 < gpus < 1 else 1


def _step(progress: Mapping[str, Any]) -> float:
    return float(progress.get("step", progress.get("done", 0)))
