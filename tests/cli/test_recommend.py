"""`maxk-lab recommend`: measures what is missing, ranks, prints the line to paste."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result

from maxk_lab.estimators import advantages
from maxk_lab.sweeps.run.records import RunDirectory

from .conftest import program

pytestmark = pytest.mark.slow

Lab = Callable[..., Result]


SWEEP = """\
name: budget
seeds: [0]
environment: {name: bandit, arms: 4}
gradient:
  instances: 12
  pool: 64
  complete: true
  grid:
    {estimator: [maxk, grpo], baseline: [none, centred, "affine[cross_fit]"], n: [3, 4], k: [1, 2]}
tracking: {wandb: disabled}
"""


@pytest.fixture
def budgeted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("budget.yaml").write_text(SWEEP, encoding="utf-8")
    return "budget.yaml"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the best of a budget has been asked for, and all that it takes measured."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "budget.yaml").write_text(SWEEP, encoding="utf-8")
    done = program([*budget_12("budget.yaml"), "--json"], folder)
    assert done.returncode == 0, done.stderr
    (folder / "answer.json").write_text(done.stdout, encoding="utf-8")
    return folder


def budget_12(spec: str, *settings: str) -> list[str]:
    """The arguments that ask for max@2 with 12 rollouts, with values of the sweep set."""
    overrides = [word for setting in settings for word in ("--set", setting)]
    return ["recommend", spec, "--budget", "12", "--objective", "max@2", *overrides]


def rewards_of(line: str) -> torch.Tensor:
    """Rewards of the shape that the line to paste names."""
    shape = re.search(r"rewards \[(\d+), (\d+)\]", line)
    assert shape is not None, line
    return torch.randn(*map(int, shape.groups()), dtype=torch.float64)


def test_it_measures_what_is_missing_once_and_ranks_by_snr_per_rollout(
    lab: Lab, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(measured)
    (answer,) = json.loads(Path("answer.json").read_text(encoding="utf-8"))
    assert (answer["objective"], answer["budget"], answer["stage"]) == ("max@2", 12, 0)
    per_step = [one["step_snr"]["value"] for one in answer["candidates"]]
    assert per_step == sorted(per_step, reverse=True), "exact, so by SNR is by variance"
    assert {(one["n"], one["groups"]) for one in answer["candidates"]} == {(3, 4), (4, 3)}
    # The pairs of this objective with the other K were not measured.
    records = set(RunDirectory("results/budget").ids())
    assert records == {cell for one in answer["candidates"] for cell in one["cells"].values()}
    again = lab(*budget_12("budget.yaml"), "--json")
    assert json.loads(again.stdout) == [answer]
    assert json.loads(lab(*budget_12("budget"), "--json").stdout) == [answer], "by the run's name"
    assert "0/0 cells" in again.stderr or "finished" not in again.stderr


def test_the_line_to_paste_runs(lab: Lab, measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(measured)
    fitted = lab(*budget_12("budget.yaml"))
    assert fitted.exit_code == 0, fitted.output
    assert "Recommended: maxk with affine[cross_fit]" in fitted.stdout
    assert "Paste: " not in fitted.stdout, "nothing that is pasted has its coefficients"
    assert "Its coefficients are fitted on other instances" in fitted.stdout
    assert "How much instances differ from each other does not enter it" in fitted.stdout
    done = lab(*budget_12("budget.yaml", "gradient.grid.baseline=[none, centred]"))
    assert done.exit_code == 0, done.output
    line = next(line for line in done.stdout.splitlines() if line.startswith("Paste: "))
    rewards = rewards_of(line)
    names = {"advantages": advantages, "rewards": rewards}
    exec(line.removeprefix("Paste: "), names | (scope := {}), scope)
    assert scope["weights"].shape == rewards.shape


def test_the_line_to_paste_of_an_off_policy_estimator_takes_ratios(lab: Lab, budgeted: str) -> None:
    settings = ("gradient.behaviour.distance=0.5", "gradient.grid.estimator=off_policy_maxk")
    done = lab(*budget_12(budgeted, *settings))
    assert done.exit_code == 0, done.output
    line = next(line for line in done.stdout.splitlines() if line.startswith("Paste: "))
    rewards = rewards_of(line)
    names = {"advantages": advantages, "rewards": rewards, "ratios": torch.ones_like(rewards)}
    exec(line.removeprefix("Paste: "), names | (scope := {}), scope)
    assert scope["weights"].shape == rewards.shape


def test_a_mark_says_what_an_interval_is_about_and_how_two_were_compared(
    lab: Lab, budgeted: str
) -> None:
    """The groups of n = 3 and 4 are in 21 and 16 blocks: of a few instances they are no pairs.

    Nor do two intervals tell the ratio where one of them reaches 0.
    """
    settings = ("complete=false", "instances=4", "grid.estimator=maxk")
    asked = budget_12(budgeted, *(f"gradient.{setting}" for setting in settings))
    done = lab(*asked)
    assert done.exit_code == 0, done.output
    few = "4 instances are too few to speak of others"
    marks = [line for line in done.stderr.splitlines() if line.startswith(("†", "*", "—"))]
    blocks = f"{few}; their groups are in different blocks: no pairs of these"
    assert marks == [f"†: {few}", f"—: {blocks}", f"*: unpaired: {blocks}"]
    (answer,) = json.loads(lab(*asked, "--json").stdout)
    best, *others = answer["candidates"]
    assert best["step_snr"]["question"] == "these instances"
    lines = [re.split("  +", line) for line in done.stdout.splitlines() if "maxk  " in line]
    assert len(lines) == len(others) + 1
    for one, line in zip(others, lines[1:]):
        assert line[1:3] == [one["baseline"], str(one["n"])]
        assert line[4].endswith("†")
        compared = one["against_best"]
        kind = {few: "†", f"unpaired: {blocks}": "†*", blocks: "—"}[compared["reason"]]
        assert (kind == "†") == (one["n"] == best["n"])
        assert line[5].endswith(kind)
        assert compared["question"] == ("" if kind == "—" else "these instances")
