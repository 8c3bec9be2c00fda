"""The script for Slurm: drivers of one run share its units, and a requeued driver goes on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
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
Job = Callable[[str, int], Launched]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """Starts the script as Slurm does, in a folder of results, as a task of the array."""
    (tmp_path / "program.py").write_text(program("trains"))
    program_file = shlex.quote(str(tmp_path / "program.py"))
    programs = {
        "maxk-lab": f"{shlex.quote(sys.executable)} {program_file}",
        "scontrol": "echo scontrol",
    }
    for name, command in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/bash\nexec {command} "$@"\n')
        path.chmod(0o755)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    jobs: list[Launched] = []

    def start(results: str, task: int) -> Launched:
        numbers = {"CPUS_PER_TASK": "1", "ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": str(task)}
        variables = {f"SLURM_{name}": value for name, value in numbers.items()}
        variables["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        variables["STEP_SECONDS"] = "0.25"
        command = ["bash", str(SCRIPT), "sweep.yaml", "--results", results]
        jobs.append(Launched(command, tmp_path, 200, variables, tmp_path / f"job{len(jobs)}"))
        return jobs[-1]

    yield start
    for launched in jobs:
        launched.end()


def values(run: RunDirectory) -> dict[str, object]:
    records = {cell: run.read(cell) for cell in run.ids()}
    return {cell: record and json.dumps(record.metrics) for cell, record in records.items()}


@pytest.mark.slow
def test_a_driver_that_is_requeued_in_the_middle_goes_on_beside_the_other(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, shared = (RunDirectory(tmp_path / name / "shared") for name in ("quiet", "shared"))
    monkeypatch.setattr(sys, "path", [*sys.path, *map(str, STAND_INS)])
    plan = plan_of(str(tmp_path / "sweep.yaml"))
    with forking():
        execute(Run(plan, quiet), measure="fake_measures:trains")
    first, second = job("shared", 1), job("shared", 2)

    def in_the_middle() -> bool:
        """Whether each driver measures a unit, step by step."""
        with suppress(FileNotFoundError):
            steps = [
                task.get("step", 0) for info in drivers(shared.root) for task in info.tasks.values()
            ]
            return len(steps) == 2 and min(steps) > 0
        return False

    assert first.wait_for(in_the_middle)
    first.send(signal.SIGUSR1)
    first.wait()
    assert first.out == "scontrol requeue 7_1\n", first.err
    assert "Interrupted; every finished cell is kept" in first.err
    assert [*shared.cache_path.glob("training-*.pt")]
    again = job("shared", 1)
    assert (again.wait(), second.wait()) == (0, 0), again.err + second.err
    assert values(shared) == values(quiet)
    assert len(values(shared)) == 4
