"""`show --prune` on the command line: what it asks, says and leaves alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import Result
from stored import change_line, damage
from written_runs import WriteRun

from maxk_lab.report.summarise import summarise
from maxk_lab.report.view.view import View
from maxk_lab.report.write import write_report
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.store import line_of
from maxk_lab.sweeps.spec.load import load_spec

Lab = Callable[..., Result]
PRUNE = ("show", "small", "--prune")


def head_of(line: bytes) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(line[9:].partition(b"\t")[0])
    return head


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits there, and can be asked."""
    monkeypatch.setattr("maxk_lab.cli.verbs.show.sys", SimpleNamespace(stdin=Mock()))


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
    refused = lab(*PRUNE, input="n\n")
    assert refused.exit_code == 1
    assert "Nothing was removed" in refused.stderr
    assert len(outdated.ids()) == 8


def test_a_copied_folder_has_a_title_of_its_own(write_run: WriteRun, lab: Lab) -> None:
    run, _ = write_run()
    shutil.copytree(run.root, Path("results") / "copy")
    title = json.loads(lab("report", "copy", "--format", "json").stdout)["header"]["name"]
    assert title == "copy"


def test_prune_removes_that_and_leaves_notes_alone(outdated: RunDirectory, lab: Lab) -> None:
    assert lab(*PRUNE, "--yes").exit_code == 0
    assert len(outdated.ids()) == 4
    assert [path.name for path in outdated.report_path.iterdir()] == ["notes.txt"]
    again = lab(*PRUNE)
    assert (again.stdout, "0 bytes in small can go" in again.stderr) == ("", True)


def test_check_names_every_damaged_record_by_file_and_line(write_run: WriteRun, lab: Lab) -> None:
    run, _ = write_run()
    sound = lab("show", "small", "--check")
    assert (sound.exit_code, sound.stdout) == (0, "small: 8 sound records, 0 damaged\n")
    cell = run.ids()[2]
    path = damage(run.root, cell)
    line = [cell in text for text in path.read_text().splitlines()].index(True) + 1
    bad = lab("show", "small", "--check")
    assert bad.exit_code == 1
    first, last = bad.stdout.splitlines()
    assert first.startswith(f"{path}:{line}: a damaged record, which counts as missing")
    assert last == "small: 7 sound records, 1 damaged"
    assert bad.stderr.endswith("to measure them again: maxk-lab run results/small/spec.yaml\n")
    view = json.loads(lab("show", "small", "--check", "--json").stdout)
    assert (view["sound"], view["damaged"]) == (7, [first])


def test_check_reads_the_content_of_records_too(write_run: WriteRun, lab: Lab) -> None:
    """A line whose checksum is right may still be no record."""
    run, _ = write_run()
    cell = run.ids()[2]
    path = change_line(run.root, cell, lambda line: line_of(head_of(line), {"nonsense": 1}))
    line = [cell in text for text in path.read_text().splitlines()].index(True) + 1
    bad = lab("show", "small", "--check")
    assert bad.exit_code == 1
    assert f"{path}:{line}: the record of cell {cell} is damaged" in bad.stdout
    assert bad.stderr.endswith("again: maxk-lab run results/small/spec.yaml --force\n")


def test_run_says_what_can_go_of_a_large_cache(
    write_run: WriteRun, small: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = write_run()
    run.cache_path.mkdir()
    (run.cache_path / "pool-0123456789abcdef.npz").write_bytes(b"0" * 2000)
    assert "--prune" not in lab("run", small).stderr
    monkeypatch.setattr("maxk_lab.cli.verbs.run._MOST_CACHE", 1999)
    said = lab("run", small).stderr
    assert "The cache holds 2.0 kB that finished cells need no more; this frees them: " in said
    assert "maxk-lab show small --prune\n" in said
