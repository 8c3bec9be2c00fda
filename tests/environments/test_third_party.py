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
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """Runs Python in a folder where the two packages are installed."""
    installed = tmp_path / "site" / "others-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.pathsep.join([str(installed.parent), str(FIXTURES), *sys.path])

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def lab(python: Run) -> Run:
    """Runs `maxk-lab` there."""
    program = "from maxk_lab.cli import main\nif __name__ == '__main__':\n    main()"
    return lambda *arguments: python("-c", program, *arguments)


def records(folder: Path) -> list[dict]:
    return [asdict(record) for record in all_records(folder)]


@pytest.mark.deep
def test_an_environment_of_another_package_is_decoded_read_from_a_file_and_solved(
    lab: Run, tmp_path: Path
) -> None:
    """Validation accepts what its row declares, and the run does it."""
    (tmp_path / "locks.yaml").write_text(TRAINING)
    codes = [[0, 1, 2], [2, 2, 2], [0, 3, 2], [2, 3, 2]]
    (tmp_path / "codes.json").write_text(json.dumps(codes))
    lab("run", "locks.yaml", "--jobs", "1")
    (record,) = records(tmp_path / "results" / "locks")
    metrics = record["metrics"]
    assert metrics["data"]["source"] == "codes.json"
    assert metrics["reference"] == {"kind": "the_code", "exact": True, "per_instance": [1.0] * 4}
    # The most likely digit on every wheel.
    shares = [[code.count(digit) / 3 for code in codes] for digit in range(4)]
    assert metrics["extras"]["greedy"]["per_instance"] in shares
    assert "maxk centred" in lab("report", "locks", "--format", "markdown").stdout


# Runs the program with each of the command lines, and prints code and output of each as JSON.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from maxk_lab.cli import app
done = [CliRunner().invoke(app, command) for command in json.loads(sys.argv[1])]
print(json.dumps([(each.exit_code, each.output) for each in done]))
"""


def test_plans_know_what_rows_of_other_packages_declare(python: Run, tmp_path: Path) -> None:
    wrong = TRAINING.replace("steps: 40", "steps: 40\n  device: cuda\n  start: multistart")
    (tmp_path / "codes.npz").write_text("[[0, 1, 2]]")
    (tmp_path / "codes.json").write_text("[[0, 1, 2]]")
    # What a file holds is read before settings are set against each other.
    (tmp_path / "npz.yaml").write_text(wrong.replace(".json", ".npz"))
    (tmp_path / "wrong.yaml").write_text(wrong)
    (tmp_path / "hidden.yaml").write_text(GRADIENT)
    plans = [["plan", f"{name}.yaml"] for name in ("npz", "wrong", "hidden")]
    commands = [*plans, ["list", "policies", "--json"]]
    npz, refused, hidden, policies = json.loads(python("-c", COMMANDS, json.dumps(commands)).stdout)
    for (code, output), messages in (
        (npz, ["codes.npz is no file of instances; allowed: a .json"]),
        (
            refused,
            [
                "cuda: lock stays on the CPU; allowed: auto, cpu, or one of these",
                "multistart: lock has no forced first actions",
            ],
        ),
    ):
        assert code == 2
        printed = " ".join(output.split())
        assert [message for message in messages if message not in printed] == []
    assert hidden[0] == 0
    assert "2 cells" in hidden[1]
    listed = {row["name"]: row for row in json.loads(policies[1])}
    assert listed["perceptron"]["acts in"] == ["bandit"]
    assert listed["tabular"]["acts in"] == ["bandit", "lock"]


@pytest.mark.deep
def test_a_policy_of_another_package_runs_through_a_gradient_study(
    lab: Run, tmp_path: Path
) -> None:
    (tmp_path / "hidden.yaml").write_text(GRADIENT)
    lab("run", "hidden.yaml", "--jobs", "1")
    found = records(tmp_path / "results" / "hidden")
    assert [record["status"] for record in found] == ["done", "done"]
    for record in found:
        assert record["cell"]["policy"] == {"name": "perceptron", "hidden": 3}
