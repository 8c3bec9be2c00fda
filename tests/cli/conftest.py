"""Fixtures of the command-line tests: a tiny sweep, and the program in this process."""

import json
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from forked import forking
from typer.testing import CliRunner

from maxk_lab.cli import app

SWEEP = """\
name: tiny
seeds: [0, 1]
environment: {name: bandit, arms: 4}
gradient:
  instances: 2
  pool: 32
  grid: {estimator: maxk, baseline: [none, centred, subloo], n: [4, 8], k: [1, 2]}
tracking: {wandb: disabled}
"""
# A gradient and a training study.
TAUGHT = """\
name: taught
seeds: [0, 1]
environment: {name: bandit, arms: 4}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, rloo], n: 4, k: [1, 2]}
training:
  steps: 4
  batch: 8
  snapshots: [0, 2]
  evaluate: {every: 2, instances: 12, samples: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: [1, 2]}
tracking: {wandb: disabled}
"""


@pytest.fixture(scope="module", autouse=True)
def _forked(forked):
    """Fork the workers of all runs in this process."""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """The path of a sweep of 2 seeds and 10 grid points, in the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SWEEP, encoding="utf-8")
    return "tiny.yaml"


@pytest.fixture
def lab():
    """Runs `maxk-lab` in this process."""

    return lambda *arguments, **more: CliRunner().invoke(app, list(arguments), **more)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A folder in which the tiny sweep has been run, with messages about its progress."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "tiny.yaml").write_text(SWEEP, encoding="utf-8")
    with chdir(folder), forking():
        done = CliRunner().invoke(app, ["run", "tiny.yaml", "--json"])
    assert done.exit_code == 0, done.stderr
    view, lines = json.loads(done.stdout), done.stderr.splitlines()
    assert (len(view["done"]), view["failed"], view["reused"]) == (20, [], [])
    assert sum("finished bandit, stage 0, seed" in line for line in lines) == 2
    assert lines[-1] == "Next: maxk-lab report tiny"
    return folder


def write_logs(folder):
    """Write logs of 8 samples a prompt: two of 40 prompts, one of 2."""
    rng = np.random.default_rng(0)
    for name, prompts, chance in (("base", 40, 0.4), ("other", 40, 0.6), ("few", 2, 0.5)):
        lines = [
            {"prompt": f"p{i}", "reward": float(reward), "source": ("easy", "hard")[i % 2]}
            for i in range(prompts)
            for reward in rng.random(8) < chance
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
