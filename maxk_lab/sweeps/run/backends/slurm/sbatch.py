"""The submission of an array by submitit, which writes its script and calls sbatch."""

from __future__ import annotations

import io
import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.sweeps.backends import slurm_seconds
from maxk_lab.sweeps.run.backends.slurm import queue
from maxk_lab.sweeps.spec.execution import Execution

# The memory of a job beside that of its cells: the process that watches over them.
_OVERHEAD = 2**30
# The requeues after which submitit gives a job up; one that comes no further has ended before.
_REQUEUES = 10_000


def workers_of(execution: Execution) -> int:
    """Return the units that a job measures at a time: as many as share its GPU."""
    gpus = execution.gpus or 0
    return math.floor(1 / gpus) if 0 < gpus < 1 else 1


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
    used = {key for key, value in settings.items() if value is not None}
    used |= settings["additional_parameters"].keys()
    before = dict(os.environ)
    try:
        for name in before.keys() - queue.environment({key.replace("_", "-") for key in used}):
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
    return first.job_id.partition("_")[0]


def delayed(call: Callable[[], None]) -> Any:
    """Return what submitit requeues a job with, so that it makes this call."""
    from submitit.core.utils import DelayedSubmission

    return DelayedSubmission(call)
