"""A bundle carried to an empty folder reports, shows and resumes there; bad ones exit with 2."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from stored import forget
from sweep_files import Write

from maxk_lab.cli.runs import planned
from maxk_lab.errors import SpecError
from maxk_lab.sweeps.run.bundle import write_bundle
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

from .conftest import program

pytestmark = pytest.mark.slow
Lab = Callable[..., Result]


@pytest.fixture(scope="module")
def carried(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the bundle of a run lies that lacks one record, and nothing else."""
    home, folder = (tmp_path_factory.mktemp(name) for name in ("home", "elsewhere"))
    shutil.copytree(finished / "results", home / "results")
    forget(home / "results/tiny", max(RunDirectory(home / "results/tiny").ids()))
    done = program(["bundle", "tiny", "--out", str(folder)], home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{folder}/tiny.zip  0.0")
    assert "19 of 20 records" in done.stdout
    return folder


@pytest.fixture
def there(carried: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(carried / "tiny.zip", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_reads_and_resumes_in_an_empty_folder(there: Path, finished: Path) -> None:
    """In a process of its own, with nothing of the machine that it comes from."""
    report = program(["report", "tiny.zip", "--format", "json"], there)
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["counts"]["done"] == 19
    assert list(there.iterdir()) == [there / "tiny.zip"]
    resumed = program(["run", "tiny.zip", "--json"], there)
    assert resumed.returncode == 0, resumed.stderr
    told = json.loads(resumed.stdout)
    assert (len(told["done"]), len(told["reused"])) == (1, 19)
    records = [RunDirectory(folder / "results/tiny") for folder in (there, finished)]
    ours, theirs = (run.read(told["done"][0]) for run in records)
    assert ours is not None
    assert theirs is not None
    assert ours.metrics == theirs.metrics


def test_what_was_unpacked_goes_on_with_other_settings(there: Path, lab: Lab) -> None:
    first = lab("run", "tiny.zip", "--set", "seeds=[0]", "--only", "k=1")
    assert first.exit_code == 0, first.output
    refused = lab("run", "tiny.zip")
    assert refused.exit_code == 2
    assert "they differ in seeds" in refused.output
    assert lab("run", "results/tiny/spec.yaml", "--dry-run").exit_code == 0


def test_figures_and_checkpoints_are_in_it_on_request(
    finished: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished)
    words = ("bundle", "tiny", "--with", "figures", "--with", "checkpoints", "--json")
    told = json.loads(lab(*words, "--out", str(tmp_path / "all.zip")).stdout)
    found = zipfile.ZipFile(tmp_path / "all.zip").namelist()
    assert told["bytes"] == (tmp_path / "all.zip").stat().st_size
    assert "report/figures/variance.png" in found
    assert sum(name.startswith("report/") for name in found) > 5
    assert any(name.startswith("cache/pool-") for name in found)
    assert lab("bundle", "tiny", "--out", str(tmp_path / "some.zip")).exit_code == 0
    some = zipfile.ZipFile(tmp_path / "some.zip").namelist()
    assert [name for name in some if name.startswith(("report/", "cache/"))] == [
        "report/report.md",
        "report/table.csv",
    ]


OWN = """\
name: own
seeds: [0]
environment: {name: toy_llm, rewards: ["rewards_of_mine:short"]}
gradient: {instances: 1, pool: 16, grid: {estimator: maxk, baseline: none, n: 4, k: 2}}
"""


def test_a_plan_names_the_sweep_in_the_bundle(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names a module that is not there: said of a file that is."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "rewards_of_mine.py"
    module.write_text("def short(prompts, completions, **columns): ...\n")
    run = RunDirectory("elsewhere/own")
    run.write_spec(load_spec(write(OWN)))
    bundle = write_bundle(run, Path("own.zip")).path
    module.unlink()
    sys.modules.pop("rewards_of_mine", None)
    with pytest.raises(SpecError, match="rewards_of_mine") as caught:
        planned(bundle, None, Path("results"))
    assert str(caught.value).startswith("own.zip/spec.yaml:")
    assert not Path("results").exists()
