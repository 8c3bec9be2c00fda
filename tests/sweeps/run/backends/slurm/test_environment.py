"""The variables that Slurm's programs may see."""

from __future__ import annotations

import os

import pytest

from maxk_lab.sweeps.run.backends.slurm.environment import only_ours, without_ours


def test_what_a_sweep_leaves_open_a_user_may_say_for_all_jobs() -> None:
    kept = {"PATH": "/bin", "SLURM_CONF": "/conf", "SBATCH_ACCOUNT": "lab", "SBATCH_QOS": "long"}
    dropped = {
        "SBATCH_PARTITION": "gpu",
        "SBATCH_JOB_NAME": "mine",
        "SBATCH_REQUEUE": "0",
        "SRUN_EXPORT_ENV": "NONE",
        "SLURM_ARRAY_TASK_ID": "3",
        "SQUEUE_SORT": "i",
    }
    assert without_ours(kept | dropped, ["partition", "mem"]) == kept
    assert without_ours(kept | dropped) == {"PATH": "/bin", "SLURM_CONF": "/conf"}


def test_the_variables_are_back_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_JOB_NAME", "mine")
    with only_ours([]):
        assert "SBATCH_JOB_NAME" not in os.environ
    assert os.environ["SBATCH_JOB_NAME"] == "mine"
