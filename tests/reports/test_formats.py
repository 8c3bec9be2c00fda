"""Formats, their files, and the lines of a CSV."""

from __future__ import annotations

import pytest

from maxk_lab.errors import LabError
from maxk_lab.reports.formats.data import csv_of_lines
from maxk_lab.reports.formats.render import FILES, FORMATS, rendered
from maxk_lab.reports.report import make_report


def test_every_format_but_the_terminal_has_its_own_file() -> None:
    assert ("terminal", *FILES) == FORMATS
    assert len({*FILES.values()}) == len(FILES)


def test_an_unknown_format_is_refused(lab) -> None:
    summary = make_report([], [], name="nothing")
    with pytest.raises(LabError, match=r"unknown format 'markdwon' \(did you mean markdown\?\)"):
        rendered(summary, "markdwon")


def test_a_line_of_csv_holds_what_a_reader_gets_back() -> None:
    lines = [{"a": 1, "b": 0.1}, {"b": float("nan"), "c": 'say "a, b"', "d": None}]
    assert csv_of_lines(lines) == 'a,b,c,d\n1,0.1,,\n,,"say ""a, b""",\n'
