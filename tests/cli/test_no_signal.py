"""Runs in which nothing differs say so, and give no number and no best of equals, end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from compared_runs import measured

import maxk_lab
from maxk_lab.execution.records import RunDirectory

Lab = Callable[..., Result]

# All rewards are 1: centred weights are 0, and those without a baseline all the same.
BANDIT = """\
name: saturated
seeds: [0, 1]
environment: {name: bandit, arms: 4, rewards: binary}
policy: {success_probability: 0.999999}
gradient:
  instances: 2
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
claims:
  - {name: unbiased, kind: unbiased, detectable: 1}
tracking: {wandb: disabled}
"""
# Of 16 samples two or more are right: none would be missed, and `subloo` has only weights of 0.
MIXED = (
    BANDIT.replace("saturated", "mixed")
    .replace("0.999999", "0.7")
    .replace("[none, centred], n: 4, k: 2", "[none, subloo], n: 16, k: 16")
)
# Every method ends at the best there is.
TRAINING = """\
name: saturated
seeds: [0, 1]
environment: {name: bandit, arms: 2, rewards: binary}
training:
  steps: 40
  batch: 8
  learning_rate: 0.5
  grid: {estimator: maxk, baseline: [centred, subloo], n: 8, k: [2, 4]}
  evaluate: {instances: 8, samples: 16}
tracking: {wandb: disabled}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDirectory]:
    folder = tmp_path_factory.mktemp("no_signal")
    return {
        name: measured(folder / name, sweep=sweep)
        for name, sweep in (("saturated", BANDIT), ("mixed", MIXED))
    }


@pytest.mark.parametrize("form", ["terminal", "html", "json", "csv"])
def test_the_finding_is_a_sentence_in_every_format(
    lab: Lab, runs: dict[str, RunDirectory], form: str
) -> None:
    for run in runs.values():
        done = lab("report", str(run.root), "--format", form)
        assert done.exit_code == 0, done.output
        assert "no signal: every group had weight 0" in " ".join(done.output.split()).lower()


def test_no_number_is_given_where_nothing_varied(runs: dict[str, RunDirectory]) -> None:
    frame = maxk_lab.load(runs["saturated"].root)
    silent = frame[~frame.measure.isin(["dead_gradient_rate", "instances", "pool"])]
    assert {"variance", "snr", "scale", "value_variance"} <= {*silent.measure}
    assert silent.value.isna().all()
    assert silent.reason.str.startswith("no signal: ").all()
    dead = frame[(frame.measure == "dead_gradient_rate") & (frame.baseline == "centred")]
    assert (dead.value == 1).all()


def test_it_is_compared_recommended_shown_and_tracked_without_a_number(
    lab: Lab, runs: dict[str, RunDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs["saturated"]
    assert lab("compare", str(run.root), str(runs["mixed"].root)).exit_code == 0
    records = [record for cell in run.ids() if (record := run.read(cell)) is not None]
    cells = maxk_lab.load(run)
    assert cells[cells.measure.isin(["variance", "snr"])].value.isna().all()
    shown = lab("show", records[0].cell["id"], "--results", str(run.root.parent), "--json")
    assert json.loads(shown.output)["metrics"]["variance"] is None
    monkeypatch.chdir(run.root.parent)
    Path("results").mkdir()
    Path("results/saturated").symlink_to(run.root)
    told = lab("recommend", "sweep.yaml", "--budget", "8")
    assert "No candidate for max@2: every row was left out." in told.output
    assert "no signal: every group had weight 0" in told.output


def test_equal_methods_are_said_to_be_equal(lab: Lab, tmp_path: Path) -> None:
    run = measured(tmp_path / "saturated", sweep=TRAINING)
    done = lab("report", str(run.root))
    assert done.exit_code == 0, done.output
    answer = " ".join(done.output.split("In short")[0].split())
    assert "any method. All 4 end at pass@16 = 1.00" in answer
    assert "best" not in answer
    assert "Holm" not in answer, "nothing was tested"
