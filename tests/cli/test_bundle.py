"""A bundle carried to an empty folder reports, shows and resumes there; bad ones exit with 2."""

import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from launched import launching

from maxk_lab.cli.runs import planned
from maxk_lab.errors import SpecError
from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec

pytestmark = pytest.mark.slow


def test_a_bundle_reads_and_resumes_in_an_empty_folder(write_run, lab, tmp_path, monkeypatch):
    home, plan = write_run(missing=1)
    there = tmp_path / "elsewhere"
    there.mkdir()
    done = lab("bundle", "small", "--out", str(there))
    assert done.stdout.startswith(f"{there}/small.zip  0.0")
    assert "7 of 8 records" in done.stdout
    reports = {name for name in zipfile.ZipFile(there / "small.zip").namelist() if "/" in name}
    assert {"report/report.md", "report/table.csv"} <= reports
    assert {name.partition("/")[0] for name in reports} == {"records", "report"}
    shutil.rmtree(home.root)
    monkeypatch.chdir(there)
    report = lab("report", "small.zip", "--format", "json")
    assert json.loads(report.stdout)["origin"]["done"] == 7
    assert list(there.iterdir()) == [there / "small.zip"]
    with launching(there, stand_in="quick") as launch:
        resumed = launch("run", "small.zip", "--json")
        assert resumed.wait() == 0, resumed.err
        outcome = json.loads(resumed.out)
    first = plan.cells[0]
    assert (outcome["done"], len(outcome["reused"])) == ([first.id], 7)
    record = RunDirectory("results/small").read(first.id)
    assert record.cell == first.as_dict()
    # The unpacked run continues with other settings, and then is another run.
    assert lab("run", "small.zip", "--set", "seeds=[0]").exit_code == 0
    refused = lab("run", "small.zip")
    assert refused.exit_code == 2
    assert "they differ in seeds" in refused.output
    assert lab("plan", "results/small/spec.yaml").exit_code == 0


def test_a_problem_of_a_bundle_is_in_a_file_that_exists(own_rewards, monkeypatch):
    monkeypatch.syspath_prepend(str(own_rewards.parent))
    run = RunDirectory("elsewhere/own")
    run.write_spec(load_spec("sweep.yaml"))
    bundle = write_bundle(run, Path("own.zip")).path
    own_rewards.unlink()
    sys.modules.pop("own_rewards", None)
    with pytest.raises(SpecError, match="own_rewards") as caught:
        planned(bundle, None, Path("results"))
    assert str(caught.value).startswith("own.zip/spec.yaml:")
    assert not Path("results").exists()
