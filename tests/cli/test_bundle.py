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
from launched import launching
from sweep_files import Write
from written_runs import WriteRun

from maxk_lab.cli.runs import planned
from maxk_lab.errors import SpecError
from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec

pytestmark = pytest.mark.slow
Lab = Callable[..., Result]


def test_it_reads_and_resumes_in_an_empty_folder(
    write_run: WriteRun, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing of the machine that it comes from, resumed in a process of its own; one record \
is missing."""
    home, plan = write_run(missing=1)
    there = tmp_path / "elsewhere"
    there.mkdir()
    done = lab("bundle", "small", "--out", str(there))
    assert done.stdout.startswith(f"{there}/small.zip  0.0")
    assert "7 of 8 records" in done.stdout
    reports = [name for name in zipfile.ZipFile(there / "small.zip").namelist() if "/" in name]
    assert {"report/report.md", "report/table.csv"} <= {*reports}
    assert {name.partition("/")[0] for name in reports} == {"records", "report"}
    shutil.rmtree(home.root)
    monkeypatch.chdir(there)
    report = lab("report", "small.zip", "--format", "json")
    assert report.exit_code == 0, report.stderr
    assert json.loads(report.stdout)["origin"]["done"] == 7
    assert list(there.iterdir()) == [there / "small.zip"]
    with launching(there, stand_in="quick") as launch:
        resumed = launch("run", "small.zip", "--json")
        assert resumed.wait() == 0, resumed.err
        told = json.loads(resumed.out)
    first = plan.cells[0]
    assert (told["done"], len(told["reused"])) == ([first.id], 7)
    ours = RunDirectory("results/small").read(first.id)
    assert ours is not None
    assert ours.cell == first.as_dict()
    # What was unpacked goes on with other settings, and is another run then.
    assert lab("run", "small.zip", "--set", "seeds=[0]").exit_code == 0
    refused = lab("run", "small.zip")
    assert refused.exit_code == 2
    assert "they differ in seeds" in refused.output
    assert lab("plan", "results/small/spec.yaml").exit_code == 0


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
