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
        done = lab("recommend", "budget", *ASKED, *["--json"] * json)
        assert done.exit_code == 0, done.output
        return done

    return asked


def test_it_measures_what_is_missing_once_and_ranks_by_the_variance_of_a_step(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("budget.yaml").write_text(SWEEP, encoding="utf-8")
    (answer,) = json.loads(lab("recommend", "budget.yaml", *ASKED, "--json").stdout)
    assert (answer["objective"], answer["budget"], answer["stage"]) == ("max@2", 12, 0)
    over = [one["over_best"] and one["over_best"]["value"] for one in answer["candidates"]]
    assert over[0] is None
    assert over[1:] == sorted(over[1:])
    assert answer["no_between"] == ""
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
    assert "each of another instance" in printed.stdout
    one_n = json.loads(lab("recommend", "budget", *ASKED, "--n", "3", "--json").stdout)
    assert {one["n"] for one in one_n[0]["candidates"]} == {3}


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


def test_few_instances_say_nothing_of_new_ones(asked: Callable[..., Result]) -> None:
    settings = ("complete=false", "instances=4", "grid.estimator=maxk")
    few = "4 instances are too few to speak of others"
    done = asked(*settings)
    assert f"—: {few}" in done.stdout.splitlines()
    (answer,) = json.loads(asked(*settings, json=True).stdout)
    assert {one["step_snr"]["reason"] for one in answer["candidates"]} == {few}
    assert not any(one["significantly_worse"] for one in answer["candidates"])
