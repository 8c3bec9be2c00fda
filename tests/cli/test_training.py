"""A tiny training study as `show` tells it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from stored import all_records

from .conftest import TAUGHT, program

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
