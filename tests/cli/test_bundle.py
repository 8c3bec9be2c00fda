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
from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec

from .conftest import program

pytestmark = pytest.mark.slow
Lab = Callable[..., Result]


def test_it_reads_and_resumes_in_an_empty_folder(
    finished: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing of the machine that it comes from, resumed in a process of its own; one record \
is missing."""
    shutil.copytree(finished / "results", tmp_path / "home")
    forget(tmp_path / "home/tiny", max(RunDirectory(tmp_path / "home/tiny").ids()))
    there = tmp_path / "elsewhere"
    there.mkdir()
    done = lab("bundle", "tiny", "--results", str(tmp_path / "home"), "--out", str(there))
    assert done.stdout.startswith(f"{there}/tiny.zip  0.0")
    assert "19 of 20 records" in done.stdout
    monkeypatch.chdir(there)
    report = lab("report", "tiny.zip", "--format", "json")
    assert report.exit_code == 0, report.stderr
    assert json.loads(report.stdout)["origin"]["done"] == 19
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
    # What was unpacked goes on with other settings, and is another run then.
    assert lab("run", "tiny.zip", "--set", "seeds=[0]").exit_code == 0
    refused = lab("run", "tiny.zip")
    assert refused.exit_code == 2
    assert "they differ in seeds" in refused.output
    assert lab("plan", "results/tiny/spec.yaml").exit_code == 0


def test_the_report_is_in_it_as_text(finished: Path, lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "some.zip"
    done = lab("bundle", "tiny", "--results", str(finished / "results"), "--out", str(path))
    assert done.exit_code == 0
    names = zipfile.ZipFile(path).namelist()
    reports = [name for name in names if name.startswith(("report/", "cache/"))]
    assert reports == ["report/report.md", "report/table.csv"]


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
