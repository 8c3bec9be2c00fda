"""`maxk-lab recommend`: measures what is missing, ranks, prints the line to paste."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from compared_runs import measured

from maxk_lab.cli.verbs import recommend as verb
from maxk_lab.estimators import advantages
from maxk_lab.execution.records import RunDirectory
from maxk_lab.reports.report import read_report

pytestmark = pytest.mark.slow
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
def ask(tmp_path, monkeypatch, lab):
    """Asks for 12 rollouts; with settings of its study, the sweep is measured before."""
    monkeypatch.chdir(tmp_path)
    Path("budget.yaml").write_text(SWEEP, encoding="utf-8")

    def ask(what, *options, settings=()):
        if settings:
            overrides = [f"gradient.{setting}" for setting in settings]
            Path("results").mkdir()
            measured(tmp_path / "it", *overrides, sweep=SWEEP).root.rename("results/budget")
        done = lab("recommend", what, "--budget", "12", "--objective", "max@2", *options)
        assert done.exit_code == 0, done.output
        return done

    return ask


def test_missing_cells_are_measured_once_and_ranked_by_the_variance_of_a_step(ask, monkeypatch):
    (answer,) = json.loads(ask("budget.yaml", "--json").stdout)
    assert (answer["objective"], answer["budget"], answer["stage"]) == ("max@2", 12, 0)
    first, *others = [
        one["over_best"] and one["over_best"]["value"] for one in answer["candidates"]
    ]
    assert (first, others) == (None, sorted(others))
    assert answer["no_between"] == ""
    assert {(one["n"], one["groups"]) for one in answer["candidates"]} == {(3, 4), (4, 3)}
    # The pairs of this objective with the other K were not measured.
    records = set(RunDirectory("results/budget").ids())
    candidates = {cell for one in answer["candidates"] for cell in one["cells"].values()}
    assert candidates < records
    assert len(records - candidates) == 2, "the fitted baseline at n = 3 and 4"
    Path("budget.yaml").rename("budget.txt")
    assert json.loads(ask("budget.txt", "--json").stdout) == [answer]
    # The records of a run suffice: nothing is planned anew, so no code of its own is loaded.
    monkeypatch.delattr("maxk_lab.cli.verbs.recommend.planned")
    again = ask("budget", "--json")
    assert json.loads(again.stdout) == [answer], "by the run's name"
    assert "finished" not in again.stderr
    printed = ask("budget")
    for line in ("Recommended: maxk with centred", "Paste: ", "groups of different"):
        assert line in printed.stdout
    assert "left out, fitted to gradients: no training can use it" in printed.stderr
    changed = replace(read_report(RunDirectory("results/budget")).origin, changed=("mine:f",))
    monkeypatch.setattr(
        verb, "read_report", lambda *run: replace(read_report(*run), origin=changed)
    )
    assert "mine:f changed since the measurement" in ask("budget").stderr
    one_n = json.loads(ask("budget", "--n", "3", "--json").stdout)
    assert {one["n"] for one in one_n[0]["candidates"]} == {3}


@pytest.mark.parametrize(
    "settings",
    [
        ("grid.baseline=[none, centred]", "complete=false", "instances=4", "grid.estimator=maxk"),
        ("behaviour.distance=0.5", "grid.estimator=off_policy_maxk"),
    ],
)
def test_the_line_to_paste_runs(ask, settings):
    lines = ask("budget", settings=settings).stdout.splitlines()
    (line,) = (line.removeprefix("Paste: ") for line in lines if line.startswith("Paste: "))
    shape = re.search(r"rewards \[(\d+), (\d+)\]", line)
    assert shape is not None, line
    rewards = torch.randn(*map(int, shape.groups()), dtype=torch.float64)
    names = {"advantages": advantages, "rewards": rewards, "ratios": torch.ones_like(rewards)}
    exec(line, names | (scope := {}), scope)
    assert ("ratios" in line) == ("off_policy" in str(settings))
    assert scope["weights"].shape == rewards.shape
    # Few instances say nothing about new instances.
    few = "4 instances are too few to speak of others"
    assert (f"—: {few}" in lines) == ("instances=4" in settings)
    (answer,) = json.loads(ask("budget", "--json").stdout)
    reasons = {one["step_snr"]["reason"] for one in answer["candidates"]}
    worse = [one["significantly_worse"] for one in answer["candidates"]]
    assert "instances=4" not in settings or (reasons, any(worse)) == ({few}, False)
