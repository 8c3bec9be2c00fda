"""A tiny training study through the verbs: plan, run, resume, show; how far it is, and how long it takes."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from maxk_lab.cli.effort import FIRST_GUESS
from maxk_lab.cli.tracker import Tracker, UnitState
from maxk_lab.studies.training.plan import EVALUATION_COST
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec

from .conftest import PROGRAM, program

Lab = Callable[..., Result]
SWEEP = """\
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
  evaluate: {every: 2, instances: 4, samples: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: [1, 2]}
tracking: {wandb: disabled}
"""


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the sweep has been run by two workers."""
    folder = tmp_path_factory.mktemp("taught")
    (folder / "taught.yaml").write_text(SWEEP, encoding="utf-8")
    done = program(["run", "taught.yaml", "--json", "--jobs", "2"], folder)
    assert done.returncode == 0, done.stderr
    (folder / "run.json").write_text(done.stdout, encoding="utf-8")
    return folder


@pytest.fixture
def there(taught: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, as working directory."""
    monkeypatch.chdir(taught)
    return taught


def trained(folder: Path) -> list[dict[str, Any]]:
    records = [
        json.loads(path.read_text()) for path in (folder / "results/taught/cells").glob("*.json")
    ]
    return [record for record in records if record["cell"]["study"] == "training"]


def test_both_studies_are_measured(taught: Path) -> None:
    view = json.loads((taught / "run.json").read_text(encoding="utf-8"))
    assert (len(view["done"]), view["failed"]) == (10, [])
    assert [skip["study"] for skip in view["skipped"]] == ["gradient"]
    assert len(trained(taught)) == 4


def test_the_clock_is_in_the_timings_of_a_training(taught: Path) -> None:
    for record in trained(taught):
        assert "timings" not in record["metrics"]
        seconds = record["timings"]["evaluations_seconds"]
        assert len(seconds) == len(record["metrics"]["evaluations"]["step"]) == 3
        assert seconds == sorted(seconds)


def test_plan_gives_the_trainings_of_a_seed_one_line(there: Path, lab: Lab) -> None:
    lines = lab("plan", "taught.yaml").stdout.splitlines()
    (first, second) = [line.split() for line in lines if "training" in line]
    assert first[-5:] == ["0", "2", "2", "·", "·"]
    assert second[-5:] == ["1", "2", "2", "·", "·"]
    assert any(line.startswith("10 cells in 6 units: 10 done") for line in lines)


def test_a_dry_run_of_a_study_names_its_cells(there: Path, lab: Lab) -> None:
    result = lab("run", "taught.yaml", "--dry-run", "--force", "--only", "study=training,k=2")
    assert [line.split()[1:] for line in result.stdout.splitlines()] == [
        ["training", "seed", seed, "maxk", "centred", "n=4", "k=2"] for seed in "01"
    ]


def test_show_gives_the_final_curve_with_intervals_and_formulas(there: Path, lab: Lab) -> None:
    record = trained(there)[0]
    final = record["metrics"]["final"]
    text = lab("show", record["cell"]["id"]).stdout
    for k in (1, 2, 4):
        value, low, high = (final[name][k - 1] for name in ("value", "low", "high"))
        assert f"max@{k}  {value:.4g} [{low:.4g}, {high:.4g}]" in text
    assert "maxk_lab.estimators.value:maxk_curve" in text
    assert "maxk_lab.estimators.baselines.leave_one_out:centred_weights" in text
    assert "per_instance" not in text
    view = json.loads(lab("show", record["cell"]["id"], "--json").stdout)
    assert view["metrics"] == record["metrics"]


def test_show_names_the_files_of_a_policy(there: Path, lab: Lab) -> None:
    cell = trained(there)[0]["cell"]["id"]
    files = json.loads(lab("show", cell, "--json").stdout)["files"]
    assert files == {
        "checkpoint": f"results/taught/cache/training-{cell}.pt",
        "snapshots": {
            f"step {step}": f"results/taught/cache/policy-{cell}-{step}.pt" for step in (0, 2)
        },
    }
    text = lab("show", cell).stdout
    assert all(
        Path(path).is_file() and path in text
        for path in [files["checkpoint"], *files["snapshots"].values()]
    )


def test_a_trained_policy_is_that_of_a_gradient_study(there: Path, lab: Lab) -> None:
    cell = trained(there)[0]["cell"]["id"]
    override = [
        "--set",
        f"policy.checkpoint=results/taught/cache/training-{cell}.pt",
        "--set",
        "name=along",
    ]
    result = lab("run", "taught.yaml", *override, "--only", "study=gradient", "--json")
    assert len(json.loads(result.stdout)["done"]) == 6
    broken = lab("plan", "taught.yaml", "--set", "policy.checkpoint=taught.yaml")
    assert (
        broken.exit_code,
        "policy.checkpoint: taught.yaml is no checkpoint" in broken.stderr,
    ) == (2, True)


def test_plan_shows_the_settings_of_an_entry(there: Path, lab: Lab) -> None:
    grid = "training.grid=[{estimator: maxk, baseline: centred, n: 4, k: 2}, {estimator: maxk, baseline: centred, n: 4, "
    both = [
        "taught.yaml",
        "--set",
        f"{grid}k: [1, 2], with: {{reward_scale: 2.0}}}}, {{estimator: maxk, baseline: [rloo, none], n: 4, k: 2}}]",
    ]
    text = lab("plan", *both).stdout
    assert "bandit arms=4 reward_shift=0.0 reward_scale=2.0" in text
    assert "cell              reward_scale  stage" in lab("plan", *both, "--cells").stdout
    chosen = lab("run", *both, "--dry-run", "--only", "reward_scale=2").stdout.splitlines()
    assert [line.split()[-1] for line in chosen] == ["k=1", "k=2"] * 2
    (skipped,) = [
        skip
        for skip in json.loads(lab("plan", *both, "--json").stdout)["skipped"]
        if skip["study"] == "training"
    ]
    assert skipped["point"] == {"estimator": "maxk", "baseline": "rloo", "n": 4, "k": 2}


def test_measuring_again_gives_the_same_metrics(there: Path, lab: Lab) -> None:
    before = {record["cell"]["id"]: record["metrics"] for record in trained(there)}
    result = lab("run", "taught.yaml", "--force", "--only", "study=training", "--json")
    assert len(json.loads(result.stdout)["done"]) == 4
    assert {record["cell"]["id"]: record["metrics"] for record in trained(there)} == before


def test_an_interrupted_training_goes_on_and_ends_with_the_same_metrics(
    taught: Path, tmp_path: Path
) -> None:
    """Interrupted after its first checkpoint: what is measured then is what an undisturbed run measures."""
    sweep = SWEEP.replace("steps: 4", "steps: 600\n  checkpoint_every: 20").replace(
        "every: 2", "every: 300"
    )
    (tmp_path / "taught.yaml").write_text(sweep, encoding="utf-8")
    run = ["run", "taught.yaml", "--only", "study=training,seed=0,k=2"]
    process = subprocess.Popen([*PROGRAM, *run], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    cache, deadline = tmp_path / "results" / "taught" / "cache", time.monotonic() + 100
    while not list(cache.glob("training-*.pt")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert trained(tmp_path) == []
    resumed = program(run, tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    undisturbed = program([*run, "--results", "other"], tmp_path)
    assert undisturbed.returncode == 0, undisturbed.stderr
    (one,) = trained(tmp_path)
    (other,) = (
        json.loads(path.read_text()) for path in (tmp_path / "other/taught/cells").glob("*.json")
    )
    assert one["metrics"] == other["metrics"]


@pytest.mark.parametrize(
    ("shares", "done"),
    [
        ({}, 0.0),
        ({"warmup": 0.5}, 1.0),
        ({"scores": 0.25}, 4.0),
        ({"warmup": 0.5, "scores": 0.25}, 4.0),
        ({"warmup": 1.0, "scores": 1.0, "cells": 0.1}, 10.0),
        ({"cells": 0.1}, 10.0),
    ],
)
def test_a_later_phase_means_that_the_earlier_ones_are_done(
    shares: dict[str, float], done: float
) -> None:
    assert UnitState({"warmup": 2.0, "scores": 8.0}, dict(shares)).done == done


def test_the_share_of_a_run_grows_with_the_steps_of_its_trainings(tmp_path: Path) -> None:
    path = tmp_path / "taught.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    plan = make_plan(load_spec(path))
    units = [unit for unit in plan.units if unit.study == "training"]
    tracker = Tracker(plan)
    tracker.event("run_started", {"cell_ids": [cell.id for unit in units for cell in unit.cells]})
    shares = []
    for unit in units:
        for step in (2, 4):
            tracker.event(
                "progress", {"unit": unit.label, "phase": "training", "step": step, "steps": 4}
            )
            shares.append(tracker.share)
    assert shares == pytest.approx([n / 8 for n in range(1, 9)])
    assert tracker.current == f"{units[-1].label}: training 4/4"


@pytest.mark.parametrize(
    "more", ["training.steps=8", "training.batch=16", "training.inner_epochs=2", "training.evaluate.samples=8",
             "training.evaluate.every=1"],
)  # fmt: skip
def test_more_to_do_takes_longer(tmp_path: Path, more: str) -> None:
    path = tmp_path / "taught.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    before, after = (
        sum(make_plan(load_spec(path, overrides)).units[-1].work().values())
        for overrides in ([], [more])
    )
    assert 0 < before < after


@pytest.mark.parametrize(
    ("extras", "trajectories"), [("greedy", 1), ("augmentation", 8), ("multistart", 6 + 4)]
)
def test_extras_are_decoded_once_for_every_instance(
    tmp_path: Path, extras: str, trajectories: int
) -> None:
    path = tmp_path / "taught.yaml"
    path.write_text(
        SWEEP.replace("{name: bandit, arms: 4}", "{name: tsp, num_loc: 6}"), encoding="utf-8"
    )
    before, after = (
        sum(make_plan(load_spec(path, overrides)).units[-1].work().values())
        for overrides in ([], [f"training.evaluate.extras={extras}"])
    )
    assert after - before == pytest.approx(EVALUATION_COST * 6 * 4 * trajectories)


# Seconds of one cell in one process, as records of such studies on a shared machine have them.
MEASURED = {
    75: (
        "{name: tsp, num_loc: 20}",
        "steps: 800, batch: 512",
        "every: 100, instances: 128, samples: 64",
    ),
    15: (
        "{name: tsp, num_loc: 12}",
        "steps: 300, batch: 256",
        "every: 100, instances: 64, samples: 64",
    ),
}


@pytest.mark.parametrize("seconds", MEASURED)
def test_the_first_guess_is_near_what_was_measured(tmp_path: Path, seconds: int) -> None:
    environment, steps, evaluate = MEASURED[seconds]
    grid = "{estimator: maxk, baseline: centred, n: 16, k: 8}"
    extras = "extras: [greedy, augmentation, multistart]"
    path = tmp_path / "one.yaml"
    path.write_text(
        f"name: one\nseeds: 0\nenvironment: {environment}\n"
        f"training: {{{steps}, evaluate: {{{evaluate}, {extras}}}, grid: {grid}}}\n",
        encoding="utf-8",
    )
    (unit,) = make_plan(load_spec(path)).units
    guess = FIRST_GUESS * sum(unit.work().values())
    assert 0.6 * seconds < guess < 1.6 * seconds
