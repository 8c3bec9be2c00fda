"""The queue of Slurm: what it says of jobs and of the site's limits, cancelling and requeuing.

It is asked with `squeue` and `scontrol`, which every site has, and never with `sacct`, for which
a site needs a database.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.backends.slurm.environment import without_ours

# States in which a job will never run again; it may be in any other one for a while.
ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "REVOKED", "TIMEOUT"),
}
# Those of them that a job has brought about by itself, and no node or person.
BY_ITSELF = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
# States in which a job has not begun.
QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD"}
# Name, number of the array, index in it, state, nodes and the reason of the state. None of them
# but the last can have a `|` in it.
_FORMAT = "%j|%F|%K|%T|%N|%r"
# The seconds after which a program of Slurm counts as not answering.
_PATIENCE = 60.0


class QueueError(RefusedError):
    """A program of Slurm that is missing, refuses or does not answer; with what it said."""


@dataclass(frozen=True)
class Job:
    """A job in the queue.

    One without an index is a job of its own, or stands for all jobs of an array that are not listed
    by themselves: so Slurm tells of an array that was cancelled before it began.
    """

    name: str
    number: str
    index: int | None
    state: str
    node: str = ""
    reason: str = ""

    @property
    def id(self) -> str:
        """The id that Slurm's commands take, e.g. `12_3`."""
        return self.number if self.index is None else f"{self.number}_{self.index}"

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in ENDED


@dataclass(frozen=True)
class Limits:
    """The site's limits: the jobs of one array, and those of all users at a time."""

    array: int
    jobs: int


def jobs(names: Iterable[str]) -> list[Job]:
    """Return the jobs of these names that Slurm knows: also, for some minutes, those that ended.

    Raises `QueueError` where it does not answer.
    """
    wanted = ",".join(names)
    if not wanted:
        return []
    text = _said(
        "squeue", "--noheader", "--array", "--states=all", f"--name={wanted}", f"--format={_FORMAT}"
    )
    return [job for line in text.splitlines() if (job := _job(line)) is not None]


def _job(line: str) -> Job | None:
    """Return the job of a line; None for one that is no line of a job."""
    parts = line.strip().split("|", 5)
    if len(parts) < 6 or not parts[1].isdigit():
        return None
    name, number, index, state, node, reason = parts
    return Job(name, number, int(index) if index.isdigit() else None, state, node, reason)


def by_index(found: Iterable[Job], name: str, count: int) -> dict[int, Job]:
    """Return those of the `count` jobs of an array, or the one job, of this name that are known."""
    named = {job.index: job for job in found if job.name == name}
    jobs = {index: named.get(index, named.get(None)) for index in range(count)}
    return {index: job for index, job in jobs.items() if job is not None}


def count() -> int:
    """Return how many jobs of all users there are. Raises `QueueError`."""
    return len(_said("squeue", "--noheader", "--array", "--format=%i").splitlines())


def limits() -> Limits:
    """Return the site's limits. Raises `QueueError`."""
    text = _said("scontrol", "show", "config")
    found = dict(re.findall(r"^(\w+)\s*=\s*(\d+)", text, re.MULTILINE))
    # Slurm's own defaults.
    return Limits(int(found.get("MaxArraySize", 1001)), int(found.get("MaxJobCount", 10_000)))


def cancel(numbers: Sequence[str]) -> None:
    """Cancel jobs, or arrays, by their numbers. Raises `QueueError`."""
    if numbers:
        _said("scancel", *numbers)


def requeue(job: str) -> None:
    """Put a running job back into the queue, which ends it here. Raises `QueueError`."""
    _said("scontrol", "requeue", job)


def check_there() -> None:
    """Raise `QueueError` where this machine cannot submit jobs."""
    missing = [one for one in ("sbatch", "squeue", "scontrol") if shutil.which(one) is None]
    if missing:
        raise QueueError(
            f"no {', '.join(missing)} on this machine: backend slurm submits jobs where Slurm is "
            "installed, such as a login node of the cluster; there the same command works"
        )


def _said(*command: str) -> str:
    """Return what a program of Slurm prints."""
    try:
        done = subprocess.run(
            command,
            env=without_ours(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            # Ctrl-C is for the run.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise QueueError(f"{command[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise QueueError(f"{command[0]} does not answer within {_PATIENCE:.0f} s") from None
    except OSError as error:
        raise QueueError(f"{command[0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise QueueError(f"{command[0]}: {said}")
    return done.stdout
