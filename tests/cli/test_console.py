"""Words for the console."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maxk_lab.cli.console import PIPE_WIDTH, duration, print_table

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
