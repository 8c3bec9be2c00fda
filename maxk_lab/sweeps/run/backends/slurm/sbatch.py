"""The submission of arrays by submitit, which writes the scripts and calls sbatch."""

from __future__ import annotations

import io
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.sweeps.run.backends.slurm.environment import only_ours
from maxk_lab.sweeps.spellings import slurm_seconds

if TYPE_CHECKING:
    from maxk_lab.sweeps.spec.execution import Execution

# The memory of a job beside that of its cells: the process that watches over them.
_OVERHEAD = 2**30
# Options of sbatch that a run cannot do with other values of.
_OURS = {
    *(
        "array",
        "chdir",
        "clusters",
        "error",
        "export",
        "job-name",
        "no-requeue",
        "nodes",
        "ntasks",
        "output",
    ),
    *("ntasks-per-node", "open-mode", "parsable", "requeue", "signal", "wait", "wrap"),
}


def workers_of(execution: Execution) -> int:
    """Return the units that a job measures at a time: as many as share its GPU."""
    gpus = execution.gpus or 0
    return math.floor(1 / gpus) if 0 < gpus < 1 else 1


def parameters(execution: Execution, at_once: int) -> dict[str, Any]:
    """Return the parameters of an array for submitit, with at most `at_once` jobs running.

    Raises `LabError` for an option of sbatch that is not for the user to set.
    """
    own, workers = execution.parameters, workers_of(execution)
    options = {option.replace("_", "-"): value for option, value in own["options"].items()}
    if set_here := sorted(_OURS & set(options)):
        raise LabError(f"execution.options: a run sets {', '.join(set_here)} itself; leave it out")
    found = {
        "time": math.ceil(slurm_seconds(own["time"]) / 60) if own["time"] else None,
        **{key: own[key] or None for key in ("partition", "account", "qos", "constraint")},
        "cpus_per_task": execution.cpus * workers,
        "gpus_per_node": math.ceil(execution.gpus or 0) or None,
        "mem": _memory(execution, workers),
        "setup": list(own["setup"]) or None,
        "array_parallelism": at_once,
        "stderr_to_stdout": True,
        # A name of submitit's own, which sites that keep accounts by such keys do not know.
        "wckey": None,
        # Without it srun follows SLURM_EXPORT_ENV, and a job would not find itself.
        "srun_args": ["--export=ALL"],
        # That which jobs listen to: SUBMITIT_PREEMPT_SIGNAL may name another one.
        "additional_parameters": {"requeue": True, "signal": f"USR2@{own['signal']}", **options},
    }
    # An option counts for more than the key that says the same.
    return {key: value for key, value in found.items() if key.replace("_", "-") not in options}


def _memory(execution: Execution, workers: int) -> str | None:
    """Return the memory of a job: enough that a cell is ended by its own limit, not by Slurm."""
    if execution.memory is None:
        return None
    return f"{math.ceil((execution.memory * workers + _OVERHEAD) / 2**20)}M"


def _said(settings: Mapping[str, Any]) -> set[str]:
    """Return the options of sbatch that these parameters give."""
    said = {key for key, value in settings.items() if value is not None}
    return {key.replace("_", "-") for key in said | {*settings.get("additional_parameters", {})}}


def submit(
    name: str, calls: Sequence[Callable[[], None]], folder: Path, settings: Mapping[str, Any]
) -> str:
    """Submit an array of this name, whose jobs make one of these calls each; return its number.

    Raises `RefusedError` with the words of sbatch where it refuses.
    """
    import submitit

    if "%" in str(folder):
        raise LabError(f"{folder}: Slurm writes no logs below a folder with % in its name")
    try:
        executor = submitit.SlurmExecutor(folder, python=f"{shlex.quote(sys.executable)} -P")
        executor.update_parameters(job_name=name, **settings)
        # It prints what sbatch says, and raises it, too.
        with redirect_stderr(io.StringIO()), only_ours(_said(settings)):
            first, *_ = executor.submit_array(calls)
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
        lines = [line.removeprefix("sbatch: error: ") for line in str(error).strip().splitlines()]
        raise RefusedError(f"sbatch does not take the jobs: {'; '.join(lines)}") from error
    except (RuntimeError, OSError) as error:
        raise RefusedError(f"the jobs cannot be submitted: {error}") from error
    return first.job_id.partition("_")[0]


def complete(calls: Sequence[Callable[[], None]], folder: Path, number: str) -> None:
    """Write what a process that was killed while it submitted has not written of an array."""
    from submitit.core.utils import DelayedSubmission, JobPaths, temporary_save_path

    for index, call in enumerate(calls):
        job = f"{number}_{index}" if len(calls) > 1 else number
        path = JobPaths(folder, job).submitted_pickle
        if not path.exists():
            with temporary_save_path(path) as partial:
                DelayedSubmission(call).dump(partial)
