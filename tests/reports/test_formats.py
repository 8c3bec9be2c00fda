"""Formats are rows of a catalogue, and another package can add one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxk_lab.catalogue import load
from maxk_lab.reports.formats.data import csv_of
from maxk_lab.reports.formats.render import CATALOGUE, FORMATS, render
from maxk_lab.reports.summarise import summarise_records
from maxk_lab.reports.view import View
from maxk_lab.reports.write import write_report

MODULE = """\
from maxk_lab.reports.formats.render import FormatRow

ROW = FormatRow(
    name="shout",
    meaning="the title, aloud",
    implementation="shouting:shout",
    file="report.txt",
)


def shout(report):
    return f"{report.title.upper()}! {len(report.sections)} sections"
"""


@pytest.fixture
def shouting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with a format for one test; catalogues look entry points up once."""
    metadata = tmp_path / "site" / "shouting-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[maxk_lab.formats]\nshout = shouting:ROW\n")
    (tmp_path / "site" / "shouting.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    CATALOGUE.__dict__.pop("_rows", None)
    yield
    CATALOGUE.__dict__.pop("_rows", None)
    sys.modules.pop("shouting", None)


def test_every_format_is_a_row_with_a_function_and_its_own_file() -> None:
    assert FORMATS == ("terminal", "markdown", "html", "csv", "json", "latex")
    assert all(callable(load(row.implementation)) for row in CATALOGUE)
    files = [row.file for row in CATALOGUE if row.file is not None]
    assert len(files) == len(set(files)) == len(FORMATS) - 1


def test_a_line_of_csv_holds_what_a_reader_gets_back() -> None:
    lines = [{"a": 1, "b": 0.1}, {"b": float("nan"), "c": 'say "a, b"', "d": None}]
    assert csv_of(lines) == 'a,b,c,d\n1,0.1,,\n,,"say ""a, b""",\n'


def test_another_package_adds_a_format(shouting: None, lab, tmp_path: Path) -> None:
    cells = lab.cells(ns=(8,), ks=(2,))
    summary = summarise_records(cells, [lab.record(cell) for cell in cells], name="quiet")
    said = "MAXK-LAB: QUIET! 1 sections"
    assert render(summary, "shout") == said
    written = write_report(summary, tmp_path, view=View(sort="n"))
    assert written[-1].name == "report.txt"
    assert written[-1].read_text() == said
