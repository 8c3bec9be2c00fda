"""The jobs of a run: submitted as arrays by submitit, asked for by squeue, ended by scancel.

An array is a submission, in `<run>/jobs/<name>/`. What it consists of is written once Slurm has
taken it. Of one whose process was killed in between nobody knows: what its jobs measure is measured
twice, which does no harm. Slurm is never asked by `sacct`, as submitit does, for which a site needs
a database.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from filelock import SoftFileLease, Timeout

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.files import write_atomically
from maxk_lab.sweeps.backends import slurm_seconds
from maxk_lab.sweeps.plan.needs import MOST_JOBS, guessed_seconds, packs
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.backends.backend import Jobs, JobState, State, Task
from maxk_lab.sweeps.run.backends.slurm.pack import Pack, workers_of
from maxk_lab.sweeps.run.progress import seconds_of_units, statuses
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.store import Head
from maxk_lab.sweeps.spec.execution import Execution

FOLDER, _FILE = "jobs", "submission.json"
# Seconds for which another process may submit or cancel.
_SUBMITTING = 60.0
# The memory of a job beside that of its cells: the process that watches over them.
_OVERHEAD = 2**30
# The requeues at its time limit after which submitit gives a job up.
_REQUEUES = 20
# States in which a job has not begun; in which it will never run again; and those of the latter
# that it has brought about by itself. It may be in any other one for a while.
QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD"}
BY_ITSELF = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
_ENDED = {*BY_ITSELF, "BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "PREEMPTED", "REVOKED"}
# Id, state, nodes and the reason of the state, which alone may have a `|`.
_FORMAT = "%i|%T|%N|%r"
# The seconds after which a program of Slurm counts as not answering.
_PATIENCE = 60.0
# Variables that change what Slurm's programs are told, but for those by which they find the cluster
# and are let in, and what a user may say of all jobs: that by the option of sbatch which says it.
_OF_SLURM = ("SBATCH_", "SCANCEL_", "SCONTROL_", "SLURM_", "SQUEUE_", "SRUN_")
_CLUSTER = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_KEY", "SLURM_SACK_SOCKET"}
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
        return self.state in _ENDED


@dataclass(frozen=True)
class Job:
    """A job of an array, by its name and its index in it; `id` is what Slurm's commands take.

    `units` has the cells of each unit with the attempts at them that it makes; `execution` is the
    block of the sweep.
    """

    name: str
    index: int
    id: str = field(compare=False)
    folder: Path = field(compare=False)
    units: Mapping[str, Mapping[str, int]] = field(compare=False)
    execution: Mapping[str, Any] = field(compare=False)

    @property
    def log(self) -> Path:
        """The file of what it prints."""
        return self.folder / f"{self.id}_0_log.out"

    def measures(self, task: Task) -> bool:
        """Whether it measures every cell of a task, by an attempt that counts for the task."""
        attempts = self.units.get(task.key, {})
        return all(attempts.get(cell["id"], 0) >= task.attempt for cell in task.cells)


def submitted(run: RunDirectory) -> list[Job]:
    """Return all jobs that were submitted for a run."""
    jobs = []
    for path in sorted((run.root.absolute() / FOLDER).glob(f"*/{_FILE}")):
        jobs += _jobs_of(path.parent, **json.loads(path.read_bytes()))
    return jobs


def _jobs_of(
    folder: Path, number: str, units: list[dict[str, dict[str, int]]], execution: dict[str, Any]
) -> list[Job]:
    """Return the jobs of an array, which has a number unless there is only one of them."""
    ids = [number] if len(units) == 1 else [f"{number}_{index}" for index in range(len(units))]
    return [
        Job(folder.name, index, id_, folder, units[index], execution)
        for index, id_ in enumerate(ids)
    ]


def living(run: RunDirectory) -> list[Job]:
    """Return the jobs of a run that may run. Raises `QueueError`."""
    return [job for job, one in queue(submitted(run)).items() if not one.has_ended]


def queue(jobs: Sequence[Job]) -> dict[Job, Listed]:
    """Return what Slurm says of those jobs that it knows: also, for some minutes, of ended ones.

    Raises `QueueError` where it does not answer.
    """
    if not jobs:
        return {}
    names = f"--name={','.join(sorted({job.name for job in jobs}))}"
    text = _output("squeue", "--noheader", "--array", "--states=all", names, f"--format={_FORMAT}")
    rows = (line.strip().split("|", 3) for line in text.splitlines() if line.count("|") >= 3)
    # One line stands for all jobs of an array that was cancelled before it began: 12_[0-7].
    listed = {
        id_.partition("[")[0].rstrip("_"): Listed(state, node, "" if reason == "None" else reason)
        for id_, state, node, reason in rows
    }
    states = {job: listed.get(job.id, listed.get(job.id.partition("_")[0])) for job in jobs}
    return {job: state for job, state in states.items() if state is not None}


def room() -> int:
    """Return how many jobs an array may have on this site. Raises `QueueError`."""
    text = _output("scontrol", "show", "config")
    most = re.search(r"^MaxArraySize\s*=\s*(\d+)", text, re.MULTILINE)
    return int(most[1]) if most else 1001  # Slurm's own default


def environment(options: Collection[str] = tuple(_BY_USERS.values())) -> dict[str, str]:
    """Return the environment without the variables that change what a program of Slurm is told.

    Those that say for all jobs what a sweep leaves open stay: `options` are what it says itself.
    """
    allowed = _CLUSTER | {name for name, option in _BY_USERS.items() if option not in options}
    return {
        name: value
        for name, value in os.environ.items()
        if name in allowed or not name.startswith(_OF_SLURM)
    }


def _output(*command: str) -> str:
    """Return what a program of Slurm prints; Ctrl-C is for the run, and does not reach it."""
    try:
        done = subprocess.run(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise QueueError(f"{command[0]} does not answer within {_PATIENCE:.0f} s") from None
    except OSError:
        raise QueueError(
            f"no {command[0]} on this machine: backend slurm submits jobs where Slurm is, such as "
            "on a login node of the cluster; there the same command works"
        ) from None
    if done.returncode:
        words = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise QueueError(f"{command[0]}: {words}")
    return done.stdout


@contextmanager
def _alone(run: RunDirectory) -> Iterator[None]:
    """Keep other processes waiting that submit or cancel jobs of this run; nothing rests on it."""
    folder = run.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    lease = SoftFileLease(folder / ".submitting", lease_duration=_SUBMITTING, timeout=_SUBMITTING)
    with suppress(OSError, Timeout):
        lease.acquire()
    try:
        yield
    finally:
        with suppress(OSError):
            lease.release()


def place(run: RunDirectory, execution: Execution, tasks: Sequence[Task]) -> dict[str, Job]:
    """Return the job of every task, by its key; what no job has that may run is submitted.

    Raises `RefusedError` where Slurm does not answer or does not take the jobs.
    """
    wanted = {task.key: task for task in tasks}
    with _alone(run):
        jobs = {
            key: job
            for job in living(run)
            for key in job.units
            if key in wanted and job.measures(wanted[key])
        }
        if new := [task for task in tasks if task.key not in jobs]:
            array = packed(run, new, execution, room())
            jobs |= {key: job for job in _submit(run, array, execution) for key in job.units}
    return jobs


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


def _submit(run: RunDirectory, array: Sequence[Sequence[Task]], execution: Execution) -> list[Job]:
    name = f"maxk-lab-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
    folder = run.root.absolute() / FOLDER / name
    folder.mkdir(parents=True)
    calls = [Pack(folder, index, tuple(pack), execution) for index, pack in enumerate(array)]
    submission: dict[str, Any] = {
        "number": sbatch(calls, folder, parameters(execution)),
        "units": [
            {task.key: {cell["id"]: task.attempt for cell in task.cells} for task in pack}
            for pack in array
        ],
        "execution": execution.model_dump(mode="json"),
    }
    write_atomically(folder / _FILE, json.dumps(submission).encode())
    return _jobs_of(folder, **submission)


def parameters(execution: Execution) -> dict[str, Any]:
    """Return the parameters of an array for submitit."""
    slurm, workers = execution.parameters, workers_of(execution)
    options = {option.replace("_", "-"): value for option, value in slurm["options"].items()}
    memory = (execution.memory or 0) * workers
    settings = {
        "time": math.ceil(slurm_seconds(slurm["time"]) / 60) if slurm["time"] else None,
        **{key: slurm[key] or None for key in ("partition", "account", "qos", "constraint")},
        "cpus_per_task": execution.cpus * workers,
        "gpus_per_node": math.ceil(execution.gpus or 0) or None,
        # Enough that a cell is ended by its own limit, not by Slurm.
        "mem": f"{math.ceil((memory + _OVERHEAD) / 2**20)}M" if memory else None,
        "setup": list(slurm["setup"]) or None,
        "array_parallelism": slurm["array"],
        "stderr_to_stdout": True,
        # A name of submitit's own, which sites that keep accounts by such keys do not know.
        "wckey": None,
        # Without it srun follows SLURM_EXPORT_ENV, and a job would not find itself.
        "srun_args": ["--export=ALL"],
        "signal_delay_s": slurm["signal"],
        "additional_parameters": {"requeue": True, **options},
    }
    # An option counts for more than the key that says the same.
    return {key: value for key, value in settings.items() if key.replace("_", "-") not in options}


def sbatch(calls: Sequence[Callable[[], None]], folder: Path, settings: Mapping[str, Any]) -> str:
    """Submit an array whose jobs make one of these calls each, by submitit; return its number.

    Raises `RefusedError` with the words of sbatch where it refuses.
    """
    import submitit

    if "%" in str(folder):
        raise LabError(f"{folder}: Slurm writes no logs below a folder with % in its name")
    options = {key for key, value in settings.items() if value is not None}
    options |= settings["additional_parameters"].keys()
    before = dict(os.environ)
    try:
        for name in before.keys() - environment({key.replace("_", "-") for key in options}):
            del os.environ[name]
        executor = submitit.SlurmExecutor(
            folder, max_num_timeout=_REQUEUES, python=f"{shlex.quote(sys.executable)} -P"
        )
        executor.update_parameters(job_name=folder.name, **settings)
        # It prints what sbatch says, and raises it, too.
        with redirect_stderr(io.StringIO()):
            first, *_ = executor.submit_array(calls)
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
        lines = [line.removeprefix("sbatch: error: ") for line in str(error).strip().splitlines()]
        raise RefusedError(f"sbatch does not take the jobs: {'; '.join(lines)}") from error
    except (RuntimeError, OSError) as error:
        raise RefusedError(f"the jobs cannot be submitted: {error}") from error
    finally:
        os.environ.update(before)
    return str(first.job_id).partition("_")[0]


def jobs(run: RunDirectory) -> Jobs:
    """Return the jobs that were submitted for a run.

    Where Slurm does not answer, what they are doing is not known, and it says why.
    """
    ours, trouble = submitted(run), ""
    listed: dict[Job, Listed] | None = None
    try:
        listed = queue(ours)
    except QueueError as error:
        trouble = str(error)
    heads = run.heads if ours else {}
    return Jobs(tuple(_state(job, listed, heads) for job in ours), trouble)


def _state(job: Job, listed: Mapping[Job, Listed] | None, heads: Mapping[str, Head]) -> JobState:
    """Return what a job is doing, by its records and by what Slurm says of it."""
    one = None if listed is None else listed.get(job)
    attempts = {cell: least for cells in job.units.values() for cell, least in cells.items()}
    told = sum(cell in heads and heads[cell].attempt >= least for cell, least in attempts.items())
    state: State = "not known"
    reason = "" if one is None else one.reason
    if told == len(attempts):
        state, reason = "finished", ""
    elif listed is not None and (one is None or one.has_ended):
        state, reason = "ended", "" if one is None else one.state
    elif one is not None:
        state = "queued" if one.state in QUEUED else "running"
    return JobState(
        id=job.id,
        state=state,
        reason=reason,
        host="" if one is None else one.node,
        units=tuple(job.units),
        cells=len(attempts),
        told=told,
        log=str(job.log),
    )


def cancel(run: RunDirectory) -> list[str]:
    """Cancel every job of a run that waits or runs, and return their ids. Raises `QueueError`.

    Those that run write checkpoints, where they can, before they leave. What another process is
    submitting is waited for, and cancelled, too.
    """
    if not (run.root / FOLDER).is_dir():
        return []
    with _alone(run):
        ids = [job.id for job in living(run)]
        if ids:
            _output("scancel", *ids)
    return ids
