"""The work of a job on its node: the units of its pack, by worker processes of that node."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from maxk_lab.errors import LabError, first_line
from maxk_lab.installed import close_current_folder
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Task
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.run.backends.slurm.history import History
from maxk_lab.sweeps.run.backends.slurm.log import Log
from maxk_lab.sweeps.run.backends.slurm.sbatch import workers_of
from maxk_lab.sweeps.run.backends.slurm.submission import Submission
from maxk_lab.sweeps.run.drive import drive
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.local import LocalBackend
from maxk_lab.sweeps.run.tasks import Work

# The time limit is near; scancel, preemption or a requeue by Slurm; Ctrl-C of an interactive job.
_SIGNALS = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
# Seconds in which what a lost node had leased becomes free, and between two looks whether it has.
_PATIENCE, _TICK = 90.0, 0.1
# Seconds that units have after SIGTERM: Slurm kills what is left after half a minute, most often.
_KILLED_SOON = 20.0
# Seconds between two tries to requeue, and what Slurm says where no other try would help.
_AGAIN, _FINAL = 2.0, ("disabled", "denied", "Invalid")


@dataclass(frozen=True)
class Pack:
    """A job of a submission, which submitit calls on the node; nothing of it ever changes."""

    root: str
    name: str
    index: int

    def __call__(self) -> None:
        """Measure what has no record yet of the units; what was left before goes on.

        Before its time limit Slurm sends SIGUSR2: the job leaves its units with checkpoints, and
        requeues itself. SIGTERM is that of `scancel`, of a preemption, or of a requeue by Slurm:
        it leaves as well, and whether it comes back is not for it to say.
        """
        close_current_folder()
        submission = Submission.read(Path(self.root), self.name)
        if not submission.over:
            _Job(submission, self.index).run()


class _Job:
    """One start of a job: it may be started several times, on several nodes."""

    def __init__(self, submission: Submission, index: int) -> None:
        self._execution = submission.limits()
        self._run = RunDirectory(submission.root)
        self._events = submission.events(index)
        self._tell = Log(self._events).tell
        provenance = collect_provenance()
        tasks = submission.tasks(index)
        self._tasks = [replace(task, provenance=provenance) for task in tasks]
        self._noted: set[int] = set()
        self._signalled = math.inf
        self._told_of_signal = False
        self._failures: list[BaseException] = []

    def run(self) -> None:
        """Measure, then leave as the signals that came ask."""
        for number in _SIGNALS:
            # In place of submitit's own, which would act in the middle of anything.
            signal.signal(number, self._note)
        before = History.read(self._events)
        self._tell("job_started", job=job_id(), host=os.uname().nodename)
        # In a thread, since in another one than the main one no signal interrupts what it is at.
        work = threading.Thread(target=self._measure, args=(before,))
        work.start()
        while work.is_alive():
            work.join(_TICK)
        for error in self._failures:
            refused = isinstance(error, LabError)
            told = str(error) if refused else f"{type(error).__name__}: {first_line(error)}"
            self._tell("job_failed", job=job_id(), error=told, refused=refused)
            raise error
        if not self._rest():
            self._tell("job_finished", job=job_id())
        elif signal.SIGUSR2 in self._noted and signal.SIGTERM not in self._noted:
            self._requeue()

    def _requeue(self) -> None:
        """Put the job back into the queue; where the site does not allow that, say what is left.

        A controller that is busy or restarts is asked until the job's time is up. A job that is
        cancelled meanwhile does not come back.
        """
        end = self._signalled + int(self._execution.parameters["signal"])
        while signal.SIGTERM not in self._noted:
            try:
                queue.requeue(job_id())
            except queue.QueueError as error:
                final = any(word in str(error) for word in _FINAL)
                if not final and time.monotonic() + _AGAIN < end:
                    time.sleep(_AGAIN)
                    continue
                self._tell("job_failed", job=job_id(), error=str(error))
                self._pass_over()
            else:
                self._tell("job_requeued", job=job_id())
            return

    def _pass_over(self) -> None:
        """Say that what is left may be submitted again, and is not lost."""
        for task in self._rest():
            self._tell("passed_over", unit=task.label, key=task.key)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.add(number)
        self._signalled = min(self._signalled, time.monotonic())

    def _leaving(self) -> float | None:
        """Return how long units may take to leave once a signal has come, and None before.

        The log keeps the signal: what ends now is no loss.
        """
        if not self._noted:
            return None
        if not self._told_of_signal:
            self._told_of_signal = True
            self._tell("job_signalled", job=job_id())
        if signal.SIGTERM in self._noted:
            return _KILLED_SOON
        # Some of the time is for the records of what cannot go on, and for the requeue.
        return min(LEAVE_SECONDS, int(self._execution.parameters["signal"]) / 2)

    def _measure(self, before: History) -> None:
        _have_children_deaf()
        try:
            with Driver(self._run.root) as driver:
                self._fail_lost(driver, before)
                self._drive(driver)
                if self._leaving() is not None:
                    self._fail_standing(driver, before)
        except BaseException as error:
            self._failures.append(error)

    def _drive(self, driver: Driver) -> None:
        """Measure what nobody else is at; what a lost node had is soon nobody's."""
        end = time.monotonic() + _PATIENCE
        while (rest := self._rest()) and self._leaving() is None:
            workers = workers_of(self._execution)
            with LocalBackend(self._run, self._execution, workers, rest) as backend:
                drive(
                    Work(rest),
                    self._run,
                    backend,
                    driver,
                    self._tell,
                    retries=self._execution.retries,
                    leaving=self._leaving,
                    waiting=False,
                )
            if time.monotonic() > end:
                self._pass_over()
                return
            time.sleep(_TICK)

    def _rest(self) -> list[Task]:
        """Return the tasks with a cell that has no new record."""
        heads = self._run.heads
        return [task for task in self._tasks if task.unmeasured(heads).cells]

    def _fail_lost(self, driver: Driver, before: History) -> None:
        """Give failed records to units whose nodes were lost too often while they were measured."""
        for task in self._rest():
            losses = before.losses[task.key]
            if losses > self._execution.retries:
                times = "" if losses == 1 else f", {losses} times in all"
                self._fail(driver, task, f"the node was lost while it measured this{times}")

    def _fail_standing(self, driver: Driver, before: History) -> None:
        """Give failed records to units for whose next step the time of a job is too short."""
        now = History.read(self._events)
        for task in self._rest():
            if now.stands_still(before, task.key):
                self._fail(
                    driver,
                    task,
                    "it came no further in a whole job than in the one before: "
                    "give execution.time more, or execution.signal less",
                )

    def _fail(self, driver: Driver, task: Task, why: str) -> None:
        if not driver.take(task.key):
            return
        error = f"{why}. To try again: --retry-failed"
        for cell in task.unmeasured(self._run.heads).cells:
            record = Record(cell, "failed", None, error, task.provenance, {})
            self._run.write(record, task.attempt)
            about = {"unit": task.label, "key": task.key, "cell": cell["id"]}
            self._tell("cell_failed", **about, error=error)
        self._tell("unit_finished", unit=task.label, key=task.key)
        driver.release(task.key)


def _have_children_deaf() -> None:
    """Let what this thread starts not hear the signals that Slurm sends to all of a job.

    Workers write their checkpoints when the job asks them to.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def job_id() -> str:
    """Return the id of the job that this process is of, as Slurm's commands take it."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    index = os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{index}" if array and index else os.environ.get("SLURM_JOB_ID", "")
