"""`prune` on the command line: what it asks, says and leaves alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner
from written_runs import WriteRun

from maxk_lab.cli import app
from maxk_lab.cli.verbs.upkeep import asking
from maxk_lab.report.summarise import summarise
from maxk_lab.report.view.view import View
from maxk_lab.report.write import write_report
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

Lab = Callable[..., Result]


@pytest.fixture
def lab() -> Lab:
    return lambda *words, **more: CliRunner().invoke(app, list(words), **more)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits there, and can be asked."""
    monkeypatch.setattr(asking, "is_asked", lambda: True)


@pytest.fixture
def outdated(write_run: WriteRun) -> RunDirectory:
    """A run with four stale records, and a report that is older than its records."""
    run, _ = write_run()
    folder = run.report_path
    write_report(summarise(run), folder, ["markdown", "json"], view=View(sort="variance"))
    (folder / "notes.txt").write_text("mine")
    run.write_spec(load_spec("sweep.yaml", ["seeds=[0]"]))
    return run


def test_prune_takes_no_for_an_answer(outdated: RunDirectory, lab: Lab, terminal: None) -> None:
    refused = lab("prune", "small", input="n\n")
    assert refused.exit_code == 1
    assert "Nothing was removed" in refused.stderr
    assert len(outdated.ids()) == 8


def test_nothing_is_removed_where_nobody_can_be_asked(outdated: RunDirectory, lab: Lab) -> None:
    refused = lab("prune", "small")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert len(outdated.ids()) == 8


def test_a_copied_folder_has_a_title_of_its_own(write_run: WriteRun, lab: Lab) -> None:
    run, _ = write_run()
    shutil.copytree(run.root, Path("results") / "copy")
    title = json.loads(lab("report", "copy", "--format", "json").stdout)["header"]["name"]
    assert title == "copy"


def test_prune_says_what_would_go(outdated: RunDirectory, lab: Lab) -> None:
    told = lab("prune", "--dry-run")
    assert "small: 4 stale records (" in told.stdout
    assert "3 files of an old report (" in told.stdout
    assert "nothing was removed" in told.stderr
    (view,) = json.loads(lab("prune", "--dry-run", "--json").stdout)
    assert len(view["stale"]) == 4
    assert len(outdated.ids()) == 8


def test_prune_removes_that_and_leaves_notes_alone(outdated: RunDirectory, lab: Lab) -> None:
    assert lab("prune", "--yes").exit_code == 0
    assert len(outdated.ids()) == 4
    assert [path.name for path in outdated.report_path.iterdir()] == ["notes.txt"]
    again = lab("prune", "--dry-run")
    assert (again.stdout, "0 bytes in 0 runs" in again.stderr) == ("", True)


def test_prune_passes_over_what_it_cannot_judge(outdated: RunDirectory, lab: Lab) -> None:
    (odd := Path("results") / "odd").mkdir()
    (odd / "spec.yaml").write_text("[")
    told = lab("prune", "--yes")
    assert told.exit_code == 0
    assert "odd stays as it is" in told.stderr
    assert len(outdated.ids()) == 4
    assert lab("prune", "odd", "--yes").exit_code == 2
