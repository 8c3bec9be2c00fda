"""The last report of a run: its verdicts count for the records and the sweep it was made of."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from stored import damage, forget
from written_runs import WriteRun, record_of

from maxk_lab.report.formats.last import FILE, last_verdicts, note_files, outdated_files
from maxk_lab.report.summarise import summarise
from maxk_lab.report.view.view import View
from maxk_lab.report.write import write_report
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

CLAIM = "claims=[{name: c, kind: unbiased, detectable: 9, where: {baseline: none}}]"
# A part has no figures, which take their time.
PART = View(sort="variance")


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
    texts = {"report.md", "report.html", "report.json", "table.csv", "table.tex"}
    assert names(reported) == texts | {FILE}


def test_figures_that_are_drawn_anew_make_no_verdict_new(reported: RunDirectory) -> None:
    """As tracking does, after every run."""
    change_record(reported)
    (figure := reported.report_path / "figures" / "new.png").parent.mkdir()
    figure.write_text("new")
    note_files(reported.report_path, [figure], summarise(reported).made_of)
    assert last_verdicts(reported) is None
    assert names(reported) == {
        "report.md",
        "report.html",
        "report.json",
        "table.csv",
        "table.tex",
    }


def test_a_copy_keeps_them(reported: RunDirectory) -> None:
    shutil.copytree(reported.root, "results/other")
    there = RunDirectory("results/other")
    assert last_verdicts(there) == last_verdicts(reported)
    assert outdated_files(there) == []


def test_the_report_of_another_run_or_of_earlier_records_is_not_theirs(
    write_run: WriteRun,
) -> None:
    run, plan = write_run("one", CLAIM, missing=1)
    other, _ = write_run("two", CLAIM, failed=1)
    before = summarise(run)
    run.write(record_of(plan.cells[0]))
    for summary in (before, summarise(other)):
        write_report(summary, run.report_path, view=PART)
        assert last_verdicts(run) is None
        assert outdated_files(run) == []


def test_only_what_reports_have_written_is_theirs(reported: RunDirectory, tmp_path: Path) -> None:
    folder = reported.report_path
    (folder / "figures").mkdir()
    for name in ("notes.txt", "figures/mine.png", "table.csv"):
        (folder / name).write_text("mine")
    shutil.copy(folder / "report.md", tmp_path / "mine")
    (folder / "report.md").unlink()
    (folder / "report.md").symlink_to(tmp_path / "mine")
    change_record(reported)
    assert names(reported) == {"report.html", "report.json", "table.tex", FILE}


def test_a_list_leads_nowhere_else(reported: RunDirectory) -> None:
    told = json.loads((reported.report_path / FILE).read_text())
    told["../../precious"] = told["figures/../../../precious"] = told["report.md"]
    shutil.copy(reported.report_path / "report.md", "results/precious")
    (reported.report_path / FILE).write_text(json.dumps(told))
    change_record(reported)
    assert all(name.count("/") == 0 for name in names(reported))


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", '{"report.json": 1}', '{"report.json": {}}'])
def test_a_list_that_is_none_lists_nothing(reported: RunDirectory, text: str) -> None:
    (reported.report_path / FILE).write_text(text)
    assert last_verdicts(reported) is None
    assert outdated_files(reported) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"claims": 1}', '{"claims": [1]}'])
def test_what_is_no_report_has_none(reported: RunDirectory, text: str) -> None:
    path = reported.report_path / "report.json"
    path.write_text(text)
    assert last_verdicts(reported) is None
    note_files(reported.report_path, [path], summarise(reported).made_of)
    assert not last_verdicts(reported)


def test_without_a_report_there_are_none(write_run: WriteRun) -> None:
    run, _ = write_run()
    assert last_verdicts(run) is None
    assert outdated_files(run) == []
