"""`maxk-lab recommend`: measures what is missing, ranks, prints the line to paste."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result
from compared_runs import measured

from maxk_lab.estimators import advantages
from maxk_lab.execution.records import RunDirectory

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
# All of it is asked with 12 rollouts.
ASKED = ("--budget", "12", "--objective", "max@2")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Lab) -> Callable[..., Result]:
    """Asks about the sweep with values of its gradient study set, all of it measured before."""
    monkeypatch.chdir(tmp_path)
    Path("budget.yaml").write_text(SWEEP, encoding="utf-8")

    def asked(*settings: str, json: bool = False) -> Result:
        overrides = [f"gradient.{one}" for one in settings]
        if not Path("results").exists():
            Path("results").mkdir()
            measured(tmp_path / "it", *overrides, sweep=SWEEP).root.rename("results/budget")
        words = [word for one in overrides for word in ("--set", one)]
        done = lab("recommend", "budget.yaml", *ASKED, *words, *["--json"] * json)
        assert done.exit_code == 0, done.output
        return done

    return asked


def test_it_measures_what_is_missing_once_and_ranks_by_snr_per_rollout(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("budget.yaml").write_text(SWEEP, encoding="utf-8")
    (answer,) = json.loads(lab("recommend", "budget.yaml", *ASKED, "--json").stdout)
    assert (answer["objective"], answer["budget"], answer["stage"]) == ("max@2", 12, 0)
    per_step = [one["step_snr"]["value"] for one in answer["candidates"]]
    assert per_step == sorted(per_step, reverse=True), "exact, so by SNR is by variance"
    assert {(one["n"], one["groups"]) for one in answer["candidates"]} == {(3, 4), (4, 3)}
    # The pairs of this objective with the other K were not measured.
    records = set(RunDirectory("results/budget").ids())
    candidates = {cell for one in answer["candidates"] for cell in one["cells"].values()}
    assert candidates < records
    assert len(records - candidates) == 2, "the fitted baseline at n = 3 and 4"
    again = lab("recommend", "budget", *ASKED, "--json")
    assert json.loads(again.stdout) == [answer], "by the run's name"
    assert "finished" not in again.stderr
    printed = lab("recommend", "budget", *ASKED)
    assert "Recommended: maxk with centred" in printed.stdout
    assert "Paste: " in printed.stdout
    assert "left out, fitted to gradients: no training can use it" in printed.stderr
    assert "How much instances differ from each other does not enter it" in printed.stdout


@pytest.mark.parametrize(
    "settings",
    [
        ("grid.baseline=[none, centred]",),
        ("behaviour.distance=0.5", "grid.estimator=off_policy_maxk"),
    ],
)
def test_the_line_to_paste_runs(asked: Callable[..., Result], settings: tuple[str, ...]) -> None:
    lines = asked(*settings).stdout.splitlines()
    (line,) = (line.removeprefix("Paste: ") for line in lines if line.startswith("Paste: "))
    shape = re.search(r"rewards \[(\d+), (\d+)\]", line)
    assert shape is not None, line
    rewards = torch.randn(*map(int, shape.groups()), dtype=torch.float64)
    names = {"advantages": advantages, "rewards": rewards, "ratios": torch.ones_like(rewards)}
    exec(line, names | (scope := {}), scope)
    assert ("ratios" in line) == ("off_policy" in str(settings))
    assert scope["weights"].shape == rewards.shape


def test_a_mark_says_what_an_interval_is_about_and_how_two_were_compared(
    asked: Callable[..., Result],
) -> None:
    """The groups of n = 3 and 4 are in 21 and 16 blocks: of a few instances they are no pairs.

    Nor do two intervals tell the ratio where one of them reaches 0.
    """
    settings = ("complete=false", "instances=4", "grid.estimator=maxk")
    done = asked(*settings)
    few = "4 instances are too few to speak of others"
    marks = [line for line in done.stderr.splitlines() if line.startswith(("†", "*", "—"))]
    blocks = f"{few}; their groups are in different blocks: no pairs of these"
    assert marks == [f"†: {few}", f"—: {blocks}", f"*: unpaired: {blocks}"]
    (answer,) = json.loads(asked(*settings, json=True).stdout)
    best, *others = answer["candidates"]
    assert best["step_snr"]["question"] == "fixed instances"
    lines = [re.split("  +", line) for line in done.stdout.splitlines() if "maxk  " in line]
    assert len(lines) == len(others) + 1
    for one, line in zip(others, lines[1:]):
        assert line[1:3] == [one["baseline"], str(one["n"])]
        assert line[4].endswith("†")
        compared = one["against_best"]
        kind = {few: "†", f"unpaired: {blocks}": "†*", blocks: "—"}[compared["reason"]]
        assert (kind == "†") == (one["n"] == best["n"])
        assert line[5].endswith(kind)
        assert compared["question"] == ("" if kind == "—" else "fixed instances")
