"""The script for Slurm: drivers of one run share its units, and a requeued driver goes on."""

import json
import os
import shlex
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from forked import forking
from launched import STAND_INS, Launched, program
from sweep_files import plan_of

from maxk_lab.execution.leases import drivers
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute

SCRIPT = Path(__file__).parents[2] / "experiments" / "slurm.sbatch"
SWEEP = """\
name: shared
seeds: [0, 1, 2, 3]
environment: {name: bandit, arms: 4}
gradient: {instances: 2, pool: 16, grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}
tracking: {wandb: disabled}
"""


def values(run):
    records = {cell: run.read(cell) for cell in run.ids()}
    return {cell: record and json.dumps(record.metrics) for cell, record in records.items()}


@pytest.mark.slow
def test_a_driver_that_is_requeued_in_the_middle_goes_on_beside_the_other(tmp_path, monkeypatch):
    quiet, shared = (RunDirectory(tmp_path / name / "shared") for name in ("quiet", "shared"))
    monkeypatch.setattr(sys, "path", [*sys.path, *map(str, STAND_INS)])
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    with forking():
        execute(Run(plan_of(str(tmp_path / "sweep.yaml")), quiet), measure="fake_measures:trains")
    (tmp_path / "program.py").write_text(program("trains"))
    script = shlex.join([sys.executable, str(tmp_path / "program.py")])
    (tmp_path / "bin").mkdir()
    for name, command in {"maxk-lab": script, "scontrol": "echo scontrol"}.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/bash\nexec {command} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)

    def start(task, log):
        """Start the script like Slurm, as a task of an array."""
        numbers = {"CPUS_PER_TASK": "1", "ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": str(task)}
        variables = {f"SLURM_{name}": value for name, value in numbers.items()}
        variables |= {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "STEP_SECONDS": "0.25"}
        command = ["bash", str(SCRIPT), "sweep.yaml", "--results", "shared"]
        job = Launched(command, tmp_path, 200, variables, tmp_path / log)
        stack.callback(job.end)
        return job

    def in_the_middle():
        """Whether each driver measures a unit, step by step."""
        with suppress(FileNotFoundError):
            steps = [
                task.get("step", 0) for info in drivers(shared.root) for task in info.tasks.values()
            ]
            return len(steps) == 2 and min(steps) > 0
        return False

    with ExitStack() as stack:
        first, second = start(1, "first"), start(2, "second")
        assert first.wait_for(in_the_middle)
        first.send(signal.SIGUSR1)
        first.wait()
        assert first.out == "scontrol requeue 7_1\n", first.err
        assert "Interrupted; every finished cell is kept" in first.err
        assert [*shared.cache_path.glob("training-*.pt")]
        again = start(1, "again")
        assert (again.wait(), second.wait()) == (0, 0), again.err + second.err
    assert values(shared) == values(quiet)
    assert len(values(shared)) == 4
