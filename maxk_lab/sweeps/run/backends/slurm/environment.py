"""The environment of Slurm's programs, without the variables that change what they are told.

`SBATCH_JOB_NAME` counts for more than the name in a script, `SQUEUE_PARTITION` hides jobs of other
partitions, and what a job that submits others is (`SLURM_ARRAY_TASK_ID`) it hands on to them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

# Those of the programs themselves; SLURM_ ones also tell a process of the job that it is in.
_OF_SLURM = ("SBATCH_", "SCANCEL_", "SCONTROL_", "SLURM_", "SQUEUE_", "SRUN_")
# By these the programs find the cluster, and are let in.
_KEPT = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_KEY", "SLURM_SACK_SOCKET"}
# What a user may say of all jobs, and by which options of sbatch a sweep says it.
_ASKED = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_TIMELIMIT": "time",
}


def without_ours(
    found: Mapping[str, str], options: Collection[str] = tuple(_ASKED.values())
) -> dict[str, str]:
    """Return the variables but for those that change what a program of Slurm is told.

    Those that say for all jobs what a sweep leaves open stay: `options` are what it says itself.
    """
    kept = _KEPT | {name for name, option in _ASKED.items() if option not in options}
    return {
        name: value
        for name, value in found.items()
        if name in kept or not name.startswith(_OF_SLURM)
    }


@contextmanager
def only_ours(options: Collection[str]) -> Iterator[None]:
    """Leave these variables alone in the environment of this process, for a program it starts."""
    before = dict(os.environ)
    dropped = before.keys() - without_ours(before, options).keys()
    for name in dropped:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update({name: before[name] for name in dropped})
