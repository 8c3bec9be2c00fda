"""Environments and policies of other packages: declared, validated, run and reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from stored import all_records

FIXTURES = Path(__file__).parents[1] / "fixtures"
ENTRY_POINTS = """\
[maxk_lab.environments]
lock = lock:LOCK
[maxk_lab.policies]
perceptron = perceptron:PERCEPTRON
"""
TRAINING = """\
name: locks
seeds: [0]
environment: {name: lock, wheels: 3, digits: 4}
training:
  steps: 40
  batch: 32
  learning_rate: 0.1
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
  evaluate:
    {every: 40, instances: 4, samples: 8, extras: [greedy], reference: exact, data: codes.json}
tracking: {wandb: disabled}
"""
GRADIENT = """\
name: hidden
seeds: [0]
environment: {name: bandit, arms: 4}
policy: {name: perceptron, hidden: 3}
gradient:
  instances: 2
  pool: 64
  grid: {estimator: maxk, baseline: [none, subloo], n: 4, k: 2}
tracking: {wandb: disabled}
"""
# Prints the exit code and the output of each command line as JSON.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from maxk_lab.cli import app
done = [CliRunner().invoke(app, command.split()) for command in json.loads(sys.argv[1])]
print(json.dumps([(each.exit_code, each.stdout, each.output) for each in done]))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., list[tuple[int, str, str]]]:
    """Runs commands of `maxk-lab` in a folder where the two packages are installed."""
    installed = tmp_path / "site" / "others-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.pathsep.join([str(installed.parent), str(FIXTURES), *sys.path])

    def run(*commands: str) -> list[tuple[int, str, str]]:
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS, json.dumps(commands)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.deep
def test_environments_and_policies_of_other_packages_run(lab, tmp_path: Path) -> None:
    (tmp_path / "locks.yaml").write_text(TRAINING)
    (tmp_path / "hidden.yaml").write_text(GRADIENT)
    codes = [[0, 1, 2], [2, 2, 2], [0, 3, 2], [2, 3, 2]]
    (tmp_path / "codes.json").write_text(json.dumps(codes))
    commands = [f"run {name}.yaml --jobs 1" for name in ("locks", "hidden")]
    *runs, report = lab(*commands, "report locks --format markdown")
    assert [code for code, *_ in runs] == [0, 0], runs
    assert "maxk centred" in report[1]
    locks, *hidden = (
        asdict(record)
        for name in ("locks", "hidden")
        for record in all_records(tmp_path / "results" / name)
    )
    metrics = locks["metrics"]
    assert metrics["data"]["source"] == "codes.json"
    assert metrics["reference"] == {"kind": "the_code", "exact": True, "per_instance": [1.0] * 4}
    # The most likely digit on every wheel.
    shares = [[code.count(digit) / 3 for code in codes] for digit in range(4)]
    assert metrics["extras"]["greedy"]["per_instance"] in shares
    assert [record["status"] for record in hidden] == ["done", "done"]
    for record in hidden:
        assert record["cell"]["policy"] == {"name": "perceptron", "hidden": 3}


def test_plans_know_what_rows_of_other_packages_declare(lab, tmp_path: Path) -> None:
    wrong = TRAINING.replace("steps: 40", "steps: 40\n  device: cuda\n  start: multistart")
    for name in ("codes.npz", "codes.json"):
        (tmp_path / name).write_text("[[0, 1, 2]]")
    # The file is read before settings are compared.
    (tmp_path / "npz.yaml").write_text(wrong.replace(".json", ".npz"))
    (tmp_path / "wrong.yaml").write_text(wrong)
    (tmp_path / "hidden.yaml").write_text(GRADIENT)
    plans = [f"plan {name}.yaml" for name in ("npz", "wrong", "hidden")]
    npz, refused, hidden, policies = lab(*plans, "list policies --json")
    assert (npz[0], refused[0], hidden[0]) == (2, 2, 0)
    for output, message in (
        (npz[2], "codes.npz is no file of instances; allowed: a .json"),
        (refused[2], "cuda: lock stays on the CPU; allowed: auto, cpu, or one of these"),
        (refused[2], "multistart: lock has no forced first actions"),
        (hidden[2], "2 cells"),
    ):
        assert message in " ".join(output.split())
    listed = {row["name"]: row for row in json.loads(policies[1])}
    assert listed["perceptron"]["acts in"] == ["bandit"]
    assert listed["tabular"]["acts in"] == ["bandit", "lock"]
