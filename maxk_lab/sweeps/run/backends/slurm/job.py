"""The work of a job on its node: the units of its pack, by the supervisor of every machine."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.installed import close_current_folder
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Task
from maxk_lab.sweeps.run.backends.slurm.progress import Progress
from maxk_lab.sweeps.run.backends.slurm.sbatch import delayed, workers_of
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
# Seconds between two times that progress is written.
_SHOWN_EVERY = 1.0


@dataclass
class Pack:
    """A job of a submission, which submitit calls at each start: there may be several of them.

    Before its time limit Slurm sends SIGUSR2: submitit calls `checkpoint`, and requeues the job
    with what that returns. SIGTERM, that of `scancel`, of a preemption or of a requeue by Slurm, it
    passes over: here the job leaves as well, and whether it comes back is not for it to say.
    """

    folder: Path
    index: int
    tasks: tuple[Task, ...]
    execution: Execution
    # The seconds that units have to leave in once a signal has come, and whether it is one of those
    # after which the job does not come back by itself.
    _seconds: float | None = field(default=None, init=False)
    _ends: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)
    _error: BaseException | None = field(default=None, init=False)
    _shown: float = field(default=0.0, init=False)

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
        if self._begun:
            # Some of the time is for the records of what cannot go on, and for the requeue.
            self._seconds = min(LEAVE_SECONDS, int(self.execution.parameters["signal"]) / 2)
            self._wait()
            if self._ends or not self._rest():
                return None
        return delayed(Pack(self.folder, self.index, self.tasks, self.execution))

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
            self._measure()
            self._progress.left = self._seconds is not None
        except BaseException as error:
            self._progress.error = str(error) if isinstance(error, LabError) else ""
            self._error = error
        finally:
            self._show()
            self._over = True

    def _measure(self) -> None:
        """Measure until all is done, or what is left has been left."""
        progress, retries = self._progress, self.execution.retries
        progress.begin()
        self._show()
        for task in self._rest():
            if (losses := progress.losses.get(task.key, 0)) > retries:
                times = "" if losses == 1 else f", {losses} times in all"
                self._fail(task, f"the node was lost while it measured this{times}")
        provenance, workers = collect_provenance(), workers_of(self.execution)
        rest = [replace(task, provenance=provenance) for task in self._rest()]
        with (
            Driver(self._run.root) as driver,
            LocalBackend(self._run, self.execution, workers, rest) as backend,
        ):
            drive(
                rest,
                self._run,
                backend,
                driver,
                self._tell,
                retries=retries,
                leaving=self._leaving,
            )
        if self._seconds is not None and not self._ends:
            for task in self._rest():
                if progress.stands_still(task.key):
                    self._fail(
                        task,
                        "it came no further in a whole job than in the one before: "
                        "give execution.time more, or execution.signal less",
                    )

    def _leaving(self) -> float | None:
        """Return how long units may take to leave once a signal has come, and None before."""
        if self._seconds is not None and self._progress.units:
            # What ends from now on is no loss.
            self._progress.units = {}
            self._show()
        return self._seconds

    def _tell(self, name: str, **payload: Any) -> None:
        """Take in an event, and show it where others look, or in what the job prints."""
        if "key" in payload:
            self._progress.take_in(name, payload["key"], payload)
        if name != "progress":
            shown = {key: payload[key] for key in payload if key not in ("key", "driver")}
            _log.info("%s %s", name, json.dumps(shown, default=str))
        at_once = name in ("unit_started", "unit_finished")
        if at_once or time.monotonic() - self._shown > _SHOWN_EVERY:
            self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        self._progress.write(self.folder, self.index)

    @cached_property
    def _run(self) -> RunDirectory:
        return RunDirectory(self.folder.parents[1])

    @cached_property
    def _progress(self) -> Progress:
        return Progress.read(self.folder, self.index)

    def _rest(self) -> list[Task]:
        """Return the tasks with a cell that has no new record."""
        heads = self._run.heads
        return [task for task in self.tasks if task.unmeasured(heads).cells]

    def _fail(self, task: Task, why: str) -> None:
        """Give failed records to what has none of a unit."""
        for cell in task.unmeasured(self._run.heads).cells:
            error = f"{why}. To try again: --retry-failed"
            record = Record(cell, "failed", None, error, task.provenance, {})
            self._run.write(record, task.attempt)
            self._tell("cell_failed", unit=task.label, cell=cell["id"], error=error)
