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
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.execution.backends.backend import Job, Jobs, State, Task
from maxk_lab.execution.backends.slurm.pack import Pack, seconds_to_leave, workers_of
from maxk_lab.execution.progress import seconds_of_units, statuses
from maxk_lab.execution.records import RunDirectory
from maxk_lab.files import write_atomically
from maxk_lab.planning.needs import guessed_seconds, packs
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.backends import slurm_seconds
from maxk_lab.sweep_file.execution import Execution

FOLDER, _FILE = "jobs", "submission.json"
# The memory of a job beside that of its cells: the process that watches over them.
_OVERHEAD = 2**30
# The requeues at its time limit after which submitit gives a job up.
_REQUEUES = 20
# States in which a job has not begun; in which it will never run again; and those of the latter
# that it has brought about by itself. It may be in any other one for a while.
_QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD"}
BY_ITSELF = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
_ENDED = {*BY_ITSELF, "BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "PREEMPTED", "REVOKED"}
_WHERE = (
    "backend slurm submits jobs where Slurm is, such as on a login node of the cluster; there the "
    "same command works"
)
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


def submitted(run: RunDirectory) -> list[Job]:
    """Return all jobs that were submitted for a run."""
    jobs = []
    for path in sorted((run.root.absolute() / FOLDER).glob(f"*/{_FILE}")):
        jobs += _jobs_of(path.parent, **json.loads(path.read_bytes()))
    return jobs


def _jobs_of(folder: Path, number: str, units: list[dict[str, dict[str, int]]]) -> list[Job]:
    """Return the jobs of an array, which has a number unless there is only one of them."""
    ids = [number] if len(units) == 1 else [f"{number}_{index}" for index in range(len(units))]
    return [Job(ids[at], f"{folder / ids[at]}_0_log.out", each) for at, each in enumerate(units)]


def queue(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs with what Slurm says of them; of ended ones it knows for some minutes.

    The reason of one that has ended is its last state. Raises `QueueError` where it does not
    answer.
    """
    if not jobs:
        return []
    names = f"--name={','.join(sorted({Path(job.log).parent.name for job in jobs}))}"
    text = _output("squeue", "--noheader", "--array", "--states=all", names, f"--format={_FORMAT}")
    rows = (line.strip().split("|", 3) for line in text.splitlines() if line.count("|") >= 3)
    # One line stands for all jobs of an array that was cancelled before it began: 12_[0-7].
    listed = {id_.partition("[")[0].rstrip("_"): said for id_, *said in rows}
    found = []
    for job in jobs:
        said = listed.get(job.id, listed.get(job.id.partition("_")[0], [""] * 3))
        word, host, reason = ("" if one == "None" else one for one in said)
        state: State = "queued" if word in _QUEUED else "running"
        if word in {"", *_ENDED}:
            state, reason = "ended", word
        found.append(replace(job, state=state, host=host, reason=reason))
    return found


def living(run: RunDirectory) -> list[Job]:
    """Return the jobs of a run that may run. Raises `QueueError`."""
    return [job for job in queue(submitted(run)) if job.may_run]


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
        raise QueueError(f"no {command[0]} on this machine: {_WHERE}") from None
    if done.returncode:
        words = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise QueueError(f"{command[0]}: {words}")
    return done.stdout


def place(run: RunDirectory, execution: Execution, tasks: Sequence[Task]) -> dict[str, Job]:
    """Return the job of every task, by its key; what no job has that may run is submitted.

    Raises `RefusedError` where Slurm does not answer or does not take the jobs.
    """
    wanted, jobs = {task.key: task for task in tasks}, dict[str, Job]()
    for job in living(run):
        jobs |= {key: job for key in job.units if key in wanted and job.measures(wanted[key])}
    if new := [task for task in tasks if task.key not in jobs]:
        for job in _submit(run, packed(run, new, execution), execution):
            jobs |= dict.fromkeys(job.units, job)
    return jobs


def packed(run: RunDirectory, tasks: Sequence[Task], execution: Execution) -> list[list[Task]]:
    """Return tasks in packs, as `maxk-lab plan` shows them."""
    plan = make_plan(run.spec())
    times, _ = seconds_of_units(plan, run, statuses(plan, run))
    seconds = [times.get(task.key, guessed_seconds(task.work, len(task.cells))) for task in tasks]
    slurm = execution.parameters
    return packs(tasks, seconds, at_once=slurm["array"], each=slurm["pack"])


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
        "signal_delay_s": seconds_to_leave(execution),
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
        raise RefusedError(f"the jobs cannot be submitted: {error}; {_WHERE}") from error
    finally:
        os.environ.update(before)
    return str(first.job_id).partition("_")[0]


def jobs(run: RunDirectory) -> Jobs:
    """Return the jobs that were submitted for a run.

    Where Slurm does not answer, what they are doing is not known, and it says why.
    """
    found, trouble = submitted(run), ""
    try:
        found = queue(found)
    except QueueError as error:
        trouble = str(error)
    heads = run.heads if found else {}
    return Jobs(tuple(job.with_records(heads) for job in found), trouble)


def cancel(run: RunDirectory) -> list[str]:
    """Cancel every job of a run that waits or runs, and return their ids. Raises `QueueError`.

    Those that run write checkpoints, where they can, before they leave.
    """
    ids = [job.id for job in living(run)]
    if ids:
        _output("scancel", *ids)
    return ids
