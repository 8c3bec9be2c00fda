"""A tiny training study through the verbs: plan, run, resume, show."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from stored import all_records

from .conftest import PROGRAM, TAUGHT, program

pytestmark = pytest.mark.slow

Lab = Callable[..., Result]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the sweep has been run by two workers."""
    folder = tmp_path_factory.mktemp("taught")
    (folder / "taught.yaml").write_text(TAUGHT, encoding="utf-8")
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
    records = map(asdict, all_records(folder / "results/taught"))
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


def test_show_gives_the_final_curve_with_intervals_and_formulas(there: Path, lab: Lab) -> None:
    record = trained(there)[0]
    final = record["metrics"]["final"]
    text = lab("show", record["cell"]["id"]).stdout
    for k in (1, 2, 4):
        value, low, high = (final[name][k - 1] for name in ("value", "low", "high"))
        assert f"max@{k}  {value:.4g} [{low:.4g}, {high:.4g}]" in text
    assert "maxk_lab.estimators.value:maxk_curve" in text
    assert "maxk_lab.estimators.baselines.leave_one_out:centred" in text
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


def test_measuring_again_gives_the_same_metrics(there: Path, lab: Lab) -> None:
    before = {record["cell"]["id"]: record["metrics"] for record in trained(there)}
    result = lab("run", "taught.yaml", "--force", "--only", "study=training", "--json")
    assert len(json.loads(result.stdout)["done"]) == 4
    assert {record["cell"]["id"]: record["metrics"] for record in trained(there)} == before


@pytest.mark.deep
def test_an_interrupted_training_goes_on_and_ends_with_the_same_metrics(
    taught: Path, tmp_path: Path
) -> None:
    """A run interrupted after its first checkpoint measures what an undisturbed one measures."""
    sweep = TAUGHT.replace("steps: 4", "steps: 600\n  checkpoint_every: 20").replace(
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
    (other,) = all_records(tmp_path / "other/taught")
    assert one["metrics"] == other.metrics
