"""Slurm's programs: what the queue says of jobs and of the site's limits, and cancelling.

It is asked with `squeue` and `scontrol`, which every site has, and never with `sacct`, as submitit
does, for which a site needs a database.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable
from typing import NamedTuple

from maxk_lab.errors import RefusedError

# States in which a job has not begun; in which it will never run again; and those of the latter
# that it has brought about by itself. It may be in any other one for a while.
QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD"}
BY_ITSELF = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
ENDED = {*BY_ITSELF, "BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "PREEMPTED", "REVOKED"}
# Name, index in the array, state, nodes and the reason of the state, which alone may have a `|`.
_FORMAT = "%j|%K|%T|%N|%r"
# The seconds after which a program of Slurm counts as not answering.
_PATIENCE = 60.0
# Variables that change what Slurm's programs are told: `SBATCH_JOB_NAME` counts for more than the
# name in a script, `SQUEUE_PARTITION` hides jobs, and a job hands on which one it is.
_OF_SLURM = ("SBATCH_", "SCANCEL_", "SCONTROL_", "SLURM_", "SQUEUE_", "SRUN_")
# By these the programs find the cluster, and are let in.
_KEPT = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_KEY", "SLURM_SACK_SOCKET"}
# What a user may say of all jobs, and the option of sbatch by which a sweep says it.
_BY_USERS = {
    f"SBATCH_{option.upper()}": option
    for option in ("account", "constraint", "exclusive", "partition", "qos", "reservation")
} | {"SBATCH_TIMELIMIT": "time"}


class QueueError(RefusedError):
    """A program of Slurm that is missing, refuses or does not answer; with what it said."""


class Listed(NamedTuple):
    """A job as the queue lists it; `reason` says why it waits, if there is any."""

    state: str
    node: str = ""
    reason: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in ENDED


# What the queue lists by the name of an array and the index in it. None stands for all jobs of the
# array that have no line: of one that was cancelled before it began, and of one that is no array.
Queue = dict[tuple[str, int | None], Listed]


def jobs(names: Iterable[str]) -> Queue:
    """Return the jobs of these names that Slurm knows: also, for some minutes, those that ended.

    Raises `QueueError` where it does not answer.
    """
    wanted = {*names}
    if not wanted:
        return {}
    asked = f"--name={','.join(sorted(wanted))}"
    text = _output("squeue", "--noheader", "--array", "--states=all", asked, f"--format={_FORMAT}")
    lines = [line.strip().split("|", 4) for line in text.splitlines()]
    return {
        (name, int(index) if index.isdigit() else None): Listed(
            state, node, "" if reason == "None" else reason
        )
        for name, index, state, node, reason in (line for line in lines if line[0] in wanted)
    }


def room() -> int:
    """Return how many jobs an array may have on this site."""
    text = _output("scontrol", "show", "config")
    most = re.search(r"^MaxArraySize\s*=\s*(\d+)", text, re.MULTILINE)
    return int(most[1]) if most else 1001  # Slurm's own default


def cancel(ids: Collection[str]) -> None:
    """Cancel jobs. Raises `QueueError`."""
    if ids:
        _output("scancel", *ids)


def environment(options: Collection[str] = tuple(_BY_USERS.values())) -> dict[str, str]:
    """Return the environment without the variables that change what a program of Slurm is told.

    Those that say for all jobs what a sweep leaves open stay: `options` are what it says itself.
    """
    kept = _KEPT | {name for name, option in _BY_USERS.items() if option not in options}
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(_OF_SLURM)
    }


def _output(*command: str) -> str:
    """Return what a program of Slurm prints."""
    try:
        done = subprocess.run(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            # Ctrl-C is for the run.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise QueueError(f"{command[0]} does not answer within {_PATIENCE:.0f} s") from None
    except FileNotFoundError:
        raise QueueError(
            f"no {command[0]} on this machine: backend slurm submits jobs where Slurm is, such as "
            "on a login node of the cluster; there the same command works"
        ) from None
    except OSError as error:
        raise QueueError(f"{command[0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise QueueError(f"{command[0]}: {said}")
    return done.stdout
