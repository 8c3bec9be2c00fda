"""The jobs of a run: submitted as arrays, shown by `maxk-lab status`, ended by its `--cancel`.

An array is a submission, in `<run>/jobs/<name>/`. What it consists of is written once Slurm has
taken it. Of one whose process was killed in between nobody knows: what its jobs measure is measured
twice, which does no harm.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.files import write_atomically
from maxk_lab.sweeps.backends import slurm_seconds
from maxk_lab.sweeps.plan.needs import MOST_JOBS, guessed_seconds, packs
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.jobs import Jobs, JobState, State
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.run.backends.slurm.job import Pack, outcome_of, workers_of
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.progress import seconds_of_units, statuses
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.store import Head
from maxk_lab.sweeps.run.supervisor.interruption import pause
from maxk_lab.sweeps.spec.execution import Execution

FOLDER = "jobs"
_FILE, _ENDED = "submission.json", "ended.json"
# The lease of whoever submits or cancels; no unit has such an id.
_SUBMITTING, _TICK = "submitting", 0.2
# The memory of a job beside that of its cells: the process that watches over them.
_OVERHEAD = 2**30
# The requeues at its time limit after which submitit gives a job up.
_REQUEUES = 100


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

    def among(self, listed: queue.Queue) -> queue.Listed | None:
        """Return what the queue says of it."""
        return listed.get((self.name, self.index), listed.get((self.name, None)))

    def measures(self, task: Task) -> bool:
        """Whether it measures every cell of a task, by an attempt that counts for the task."""
        attempts = self.units.get(task.key, {})
        return all(attempts.get(cell["id"], 0) >= task.attempt for cell in task.cells)


def submitted(run: RunDirectory) -> list[Job]:
    """Return the jobs of a run, without those of arrays that were seen to have ended."""
    jobs = []
    for path in sorted((run.root.absolute() / FOLDER).glob(f"*/{_FILE}")):
        with suppress(OSError, ValueError, TypeError, LookupError):  # of another version
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
    """Return the jobs of a run that may run. Raises `QueueError`.

    Arrays without any are put aside, for a process that is `alone`: nobody looks for them again.
    """
    jobs = submitted(run)
    listed = queue.jobs(job.name for job in jobs)
    seen = ((job, job.among(listed)) for job in jobs)
    some = [job for job, state in seen if state is not None and not state.has_ended]
    put_aside({job.folder for job in jobs} - {job.folder for job in some})
    return some


def put_aside(folders: set[Path]) -> None:
    """Have nobody look for the jobs of these submissions any more."""
    for folder in folders:
        (folder / _FILE).replace(folder / _ENDED)


@contextmanager
def alone(run: RunDirectory) -> Iterator[None]:
    """Wait until no other process submits or cancels jobs of this run, and keep others waiting.

    Raises `KeyboardInterrupt` where a signal comes while it waits.
    """
    with Driver(run.root) as driver:
        while not driver.take(_SUBMITTING):
            pause(_TICK)
        yield


def place(run: RunDirectory, execution: Execution, tasks: Sequence[Task]) -> dict[str, Job]:
    """Return the job of every task, by its key; what no job has that may run is submitted.

    Raises `RefusedError` where Slurm does not answer or does not take the jobs.
    """
    wanted = {task.key: task for task in tasks}
    with alone(run):
        jobs = {
            key: job
            for job in living(run)
            for key in job.units
            if key in wanted and job.measures(wanted[key])
        }
        if new := [task for task in tasks if task.key not in jobs]:
            array = packed(run, new, execution, queue.room())
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
    # Whoever cancels sees that there is something to wait for.
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
    said = {key for key, value in settings.items() if value is not None}
    said |= settings["additional_parameters"].keys()
    before = dict(os.environ)
    try:
        for name in before.keys() - queue.environment({key.replace("_", "-") for key in said}):
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
    """Return the jobs of a run that may run, and those of the same arrays that have ended.

    Where Slurm does not answer, what they are doing is not known, and it says why.
    """
    ours, trouble = submitted(run), ""
    listed: queue.Queue | None = None
    try:
        listed = queue.jobs(job.name for job in ours)
    except queue.QueueError as error:
        trouble = str(error)
    heads = run.heads if ours else {}
    return Jobs(tuple(_state(job, listed, heads) for job in ours), trouble)


def _state(job: Job, listed: queue.Queue | None, heads: Mapping[str, Head]) -> JobState:
    """Return what a job is doing, by its records, by what Slurm says of it and by itself."""
    one = None if listed is None else job.among(listed)
    attempts = {cell: least for cells in job.units.values() for cell, least in cells.items()}
    told = sum(cell in heads and heads[cell].attempt >= least for cell, least in attempts.items())
    state: State = "not known"
    reason = "" if one is None else one.reason
    if told == len(attempts):
        state, reason = "finished", ""
    elif listed is not None and (one is None or one.has_ended):
        state, reason = (
            "ended",
            outcome_of(job.folder, job.index).get("error") or ("" if one is None else one.state),
        )
    elif one is not None:
        state = "queued" if one.state in queue.QUEUED else "running"
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
    with alone(run):
        ours = living(run)
        queue.cancel([job.id for job in ours])
        put_aside({job.folder for job in ours})
    return [job.id for job in ours]
