"""The last report of a run: its verdicts count only as long as nothing is newer than it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from written_runs import WriteRun

from maxk_lab.report.formats.last import is_outdated, last_verdicts, report_files
from maxk_lab.sweeps.run.records import RunDirectory


@pytest.fixture
def reported(write_run: WriteRun) -> RunDirectory:
    """A run with a report of two claims, written a while after its records."""
    run, _ = write_run()
    verdicts = [{"verdict": "supported"}, {"verdict": "refuted"}, {"verdict": "supported"}]
    write_report(run, json.dumps({"claims": verdicts}))
    return run


def write_report(run: RunDirectory, text: str) -> None:
    run.report_path.mkdir(exist_ok=True)
    (run.report_path / "report.json").write_text(text)
    later = run.cells_path.stat().st_mtime_ns + 10**9
    os.utime(run.report_path / "report.json", ns=(later, later))


def test_verdicts_are_counted(reported: RunDirectory) -> None:
    assert last_verdicts(reported) == {"supported": 2, "refuted": 1}
    assert not is_outdated(reported)


def test_a_newer_record_ends_them(reported: RunDirectory) -> None:
    newer = reported.cells_path.stat().st_mtime_ns + 2 * 10**9
    os.utime(reported.cells_path, ns=(newer, newer))
    assert last_verdicts(reported) is None
    assert is_outdated(reported)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"claims": 1}', '{"claims": [1]}'])
def test_what_is_no_report_has_none(reported: RunDirectory, text: str) -> None:
    write_report(reported, text)
    assert not last_verdicts(reported)


def test_without_a_report_there_are_none(write_run: WriteRun) -> None:
    run, _ = write_run()
    assert last_verdicts(run) is None
    assert not is_outdated(run)


def test_only_what_reports_write_is_theirs(reported: RunDirectory, tmp_path: Path) -> None:
    folder = reported.report_path
    (folder / "figures").mkdir()
    for name in ("notes.txt", "figures/variance.png", "figures/mine.pdf"):
        (folder / name).write_text("")
    (tmp_path / "mine").write_text("")
    (folder / "report.md").symlink_to(tmp_path / "mine")
    names = [str(path.relative_to(folder)) for path in report_files(reported)]
    assert sorted(names) == ["figures/variance.png", "report.json"]
