"""Words for the console."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import maxk_lab.cli
from maxk_lab.cli.console import (
    PIPE_WIDTH,
    complain,
    console,
    duration,
    emit_json,
    print_table,
    say,
    tell,
    warn,
)

ROWS = [
    ["bandit arms=8", "0", "·", "affine[0.5]"],
    ["日本 ĝ", "", "12", "[bold]no markup[/bold]"],
    ["a", "200", "3", "see https://example.org/x"],
]
HEADINGS = ["environment", "stage", "cells", "status [of all]"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("rows", "width"),
    [(ROWS, PIPE_WIDTH), ([], PIPE_WIDTH), (ROWS, 40), ([["x" * 300, "", "", ""]], PIPE_WIDTH)],
)
def test_a_table_is_written_as_rich_writes_it(rows, width, capsys, monkeypatch):
    monkeypatch.setattr("maxk_lab.cli.console.PIPE_WIDTH", width)
    print_table(HEADINGS, rows)
    table = Table(*map(escape, HEADINGS), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(escape, row))
    rich = Console(width=width, highlight=False, soft_wrap=True)
    with rich.capture() as written:
        rich.print(table)
    assert capsys.readouterr().out == written.get()


def test_all_that_is_printed_goes_through_the_console() -> None:
    """There nothing in a text acts."""
    printing = {
        path.name
        for path in Path(maxk_lab.cli.__file__).parent.rglob("*.py")
        if re.search(r"typer\.echo|rich\.markup|Console\(", path.read_text("utf-8"))
    }
    assert printing == {"console.py"}


def test_no_text_acts_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is any taken for markup, or for the code of an emoji."""
    text = "[/b][red]:smile: \x1b[2J \u202e"
    shown = "[/b][red]:smile: \\x1b[2J \\u202e"
    console().print(Text(text))
    console().print(text)
    print_table(["one"], [[text], ["x" * 300]])
    tell(text)
    say(text)
    warn(text)
    complain(text)
    emit_json([text])
    told = capsys.readouterr()
    assert told.out.count(shown) == 4
    assert told.err.count(shown) == 3
    assert "\\u001b[2J \\u202e" in told.out
    assert not {"\x1b", "\u202e"} & set(told.out + told.err)
