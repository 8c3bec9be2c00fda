"""The last report of a run: its verdicts count for the records and the sweep it was made of."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
from stored import damage, forget
from written_runs import WriteRun

from maxk_lab.execution.records import RunDirectory
from maxk_lab.reports.formats.last import last_verdicts, outdated_files
from maxk_lab.reports.summarise import summarise
from maxk_lab.reports.view import View
from maxk_lab.reports.write import write_report
from maxk_lab.sweep_file.load import load_spec

CLAIM = "claims=[{name: c, kind: unbiased, detectable: 9, where: {baseline: none}}]"
# A part has no figures, which take their time.
PART = View(sort="variance")
TEXTS = {"report.md", "report.html", "report.json", "table.csv", "table.tex"}


@pytest.fixture
def reported(write_run: WriteRun) -> RunDirectory:
    """A run of 8 cells with a report."""
    run, _ = write_run("small", CLAIM)
    write_report(summarise(run), run.report_path, view=PART)
    return run


def names(run: RunDirectory) -> set[str]:
    return {path.relative_to(run.report_path).as_posix() for path in outdated_files(run)}


def test_verdicts_are_counted(reported: RunDirectory) -> None:
    verdicts = last_verdicts(reported)
    assert verdicts is not None
    assert verdicts.total() == 1
    assert names(reported) == set()


def change_record(run: RunDirectory) -> None:
    one = run.read(run.ids()[0])
    assert one is not None
    run.write(replace(one, timings={"seconds": 2.0, "finished": 0.0}))


CHANGES: dict[str, Callable[[RunDirectory], object]] = {
    "a record is gone": lambda run: forget(run.root, run.ids()[0]),
    "a record is another": change_record,
    "a record is damaged": lambda run: damage(run.root, run.ids()[0]),
    "the sweep is another": lambda run: run.write_spec(
        load_spec("sweep.yaml", [CLAIM, "gradient.grid.n=[4]"])
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_ends_them_whatever_the_times_say(reported: RunDirectory, change: str) -> None:
    CHANGES[change](reported)
    reported = RunDirectory(reported.root)
    for path in (reported.records_path, reported.spec_path, *reported.records_path.iterdir()):
        os.utime(path, (1, 1))
    assert last_verdicts(reported) is None
    assert names(reported) == TEXTS


def test_a_copy_keeps_them(reported: RunDirectory) -> None:
    shutil.copytree(reported.root, "results/other")
    there = RunDirectory("results/other")
    assert last_verdicts(there) == last_verdicts(reported)
    assert outdated_files(there) == []


def test_only_what_reports_write_is_theirs(reported: RunDirectory) -> None:
    (figures := reported.report_path / "figures").mkdir()
    text = reported.report_path / "report.json"
    text.write_text(json.dumps(json.loads(text.read_text()) | {"figures": ["variance"]}))
    for name in ("notes.txt", "figures/variance.png", "figures/variance.xcf", "figures/mine.png"):
        (reported.report_path / name).write_text("mine")
    (reported.report_path / "report.md").unlink()
    change_record(reported)
    assert names(reported) == TEXTS - {"report.md"} | {"figures/variance.png"}
    assert len(list(figures.iterdir())) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", '{"claims": [1]}'])
def test_what_cannot_be_read_tells_nothing(reported: RunDirectory, text: str) -> None:
    (reported.report_path / "report.json").write_text(text)
    assert last_verdicts(reported) is None
    assert outdated_files(reported) == []


def test_without_a_report_there_are_none(write_run: WriteRun) -> None:
    run, _ = write_run()
    assert last_verdicts(run) is None
    assert outdated_files(run) == []
