"""The placing of tasks in jobs: in those that have them already, and in new ones for the others."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.plan.needs import guessed_seconds
from maxk_lab.sweeps.plan.packing import MOST_JOBS, packs
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.slurm import queue, sbatch
from maxk_lab.sweeps.run.backends.slurm.job import Pack
from maxk_lab.sweeps.run.backends.slurm.submission import Submission, submissions
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.progress import seconds_of_units, statuses
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.interruption import pause
from maxk_lab.sweeps.spec.execution import Execution

# Seconds in which an sbatch whose caller was killed may still bring jobs into the queue.
LATE = 15.0
_TICK = 0.2
# The lease of whoever submits; no unit has such an id.
_SUBMITTING = "submitting"


@dataclass(frozen=True)
class Place:
    """A job that has some tasks: the one of this index in a submission."""

    submission: Submission
    index: int

    @property
    def job(self) -> tuple[str, int]:
        """The name and the index by which Slurm knows the job."""
        return self.submission.name, self.index


def place(run: RunDirectory, execution: Execution, tasks: Sequence[Task]) -> dict[str, Place]:
    """Return the job of every task, by its key; what no job has that may run is submitted.

    Of several processes that do so in a run at once each sees what the one before has done. Raises
    `RefusedError` where Slurm does not answer or does not take the jobs; those that it has taken
    stay.
    """
    attempts = {task.key: task.attempt for task in tasks}
    with alone(run):
        # A job that would keep a record that is to be replaced is no place for its unit.
        found = {
            task.key: Place(submission, index)
            for submission, indices in living(run)
            for index in indices
            for task in submission.tasks(index)
            if task.attempt >= attempts.get(task.key, math.inf)
        }
        new = [task for task in tasks if task.key not in found]
        for submission in _submitted(run, execution, new):
            for index, keys in enumerate(submission.packs):
                found |= dict.fromkeys(keys, Place(submission, index))
    return {task.key: found[task.key] for task in tasks}


def cancel_command(run: RunDirectory) -> str:
    """Return the command that ends the jobs of a run."""
    return f"maxk-lab status {shlex.quote(str(run.root))} --cancel"


@contextmanager
def alone(run: RunDirectory) -> Iterator[None]:
    """Wait until no other process submits or cancels jobs of this run, and keep others waiting.

    Raises `KeyboardInterrupt` where a signal comes while it waits.
    """
    with Driver(run.root) as driver:
        while not driver.take(_SUBMITTING):
            pause(_TICK)
        yield


def living(run: RunDirectory) -> list[tuple[Submission, list[int]]]:
    """Return the submissions with jobs that may run, and the indices of these.

    What a process left undone that was killed while it submitted is done, and submissions of which
    no job is left are marked as over. Raises `QueueError`.
    """
    found = []
    for submission in _settled(run):
        listed = queue.jobs([submission.name])
        jobs = queue.by_index(listed, submission.name, len(submission.packs))
        if jobs and not submission.number:
            submission = submission.changed(number=jobs[min(jobs)].number)
            sbatch.complete(calls(submission), submission.logs, submission.number)
        indices = [index for index, job in jobs.items() if not job.has_ended]
        if indices:
            found.append((submission, indices))
        else:
            submission.changed(over=True)
    return found


def _settled(run: RunDirectory) -> list[Submission]:
    """Return what is not over, once no killed process can bring in jobs any more."""
    open_ = [one for one in submissions(run) if not one.over]
    while any(_may_come(one) for one in open_):
        pause(_TICK)
    return open_


def _may_come(submission: Submission) -> bool:
    recent = 0 <= time.time() - submission.made < LATE
    return not submission.number and recent and not queue.jobs([submission.name])


def calls(submission: Submission) -> list[Pack]:
    """Return what the jobs of a submission call, by their indices."""
    root = str(submission.root)
    return [Pack(root, submission.name, index) for index in range(len(submission.packs))]


def _submitted(
    run: RunDirectory, execution: Execution, tasks: Sequence[Task]
) -> Iterator[Submission]:
    """Submit tasks and yield the arrays, each as soon as Slurm has taken it."""
    if not tasks:
        return
    limits = queue.limits()
    free = limits.jobs - queue.count()
    if free < 1:
        raise RefusedError(f"the queue of Slurm is full ({limits.jobs} jobs): try again later")
    found = packed(run, tasks, execution, free)
    arrays = [found[at : at + limits.array] for at in range(0, len(found), limits.array)]
    at_once = max(1, execution.parameters["array"] // len(arrays))
    settings = sbatch.parameters(execution, at_once)
    taken = 0
    for array in arrays:
        submission = Submission.write_new(run, array, execution)
        try:
            number = sbatch.submit(submission.name, calls(submission), submission.logs, settings)
        except BaseException as error:
            # One that comes into the queue all the same finds that it has nothing to do.
            submission.changed(over=True)
            if taken and isinstance(error, RefusedError):
                raise RefusedError(
                    f"{error}; {taken} of {len(found)} jobs were taken before, and stay: maxk-lab "
                    f"status {shlex.quote(str(run.root))} shows them, {cancel_command(run)} ends "
                    "them. With a larger execution.pack there are fewer jobs"
                ) from error
            raise
        taken += len(array)
        yield submission.changed(number=number)


def packed(
    run: RunDirectory, tasks: Sequence[Task], execution: Execution, most: int
) -> list[list[Task]]:
    """Return tasks in at most `most` packs, as `maxk-lab plan` shows them."""
    plan = make_plan(run.spec())
    times, _ = seconds_of_units(plan, run, statuses(plan, run))
    pack = execution.parameters["pack"]
    return packs(
        tasks,
        [times.get(task.key, guessed_seconds(task.work, len(task.cells))) for task in tasks],
        min(most, MOST_JOBS),
        at_once=execution.parameters["array"],
        each=None if pack == "auto" else pack,
    )
