"""A report for the terminal: rich tables within a given width, in colour where it is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from maxk_lab.reports.document import Block, label_of, with_captions
from maxk_lab.reports.formats.console import PlainConsole
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.reports.report import Report

_STYLES = {
    "REFUTED": "bold red",
    "SUPPORTED": "green",
    "UNDECIDED": "yellow",
    "failed:": "red",
    "biased": "red",
    "alarm": "yellow",
}
# The columns of a label of an answer.
_LABEL = 9
# Where a word may break.
_PART = re.compile(r"[^\s/]*/|[^\s/]+")


def terminal(report: Report) -> str:
    """The report as text of at most its `width` columns; ANSI codes only with its `colour`."""
    out = StringIO()
    console = PlainConsole(
        file=out,
        width=report.width,
        force_terminal=report.colour,
        no_color=not report.colour,
        legacy_windows=False,
    )
    console.print(Text(report.title, style="bold"))
    _print_all(console, report.blocks)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print_all(console: PlainConsole, blocks: Sequence[Block]) -> None:
    for block in with_captions(blocks):
        if block.folded:
            console.print()
            console.print(Rule(Text(block.title), characters="─", style="dim"))
            _print_all(console, block.folded)
        elif not block.pictures:
            _print(console, block)


def _print(console: PlainConsole, block: Block) -> None:
    if block.title:
        console.print()
        console.print(Text(block.title, style="bold"))
    for line in block.lines:
        label, rest = label_of(line) if block.labelled else ("", line)
        console.print(_beside(Text(label, style="bold"), Text(rest)) if label else Text(line))
    for item in block.items:
        console.print(_beside(Text("-"), _styled(visible_line(item)), 1))
    if block.columns:
        console.print(_table(block, console.width))
    for line in block.caption:
        console.print(Text(line, style="dim"))


def _beside(label: Text, rest: Text, width: int = _LABEL) -> Table:
    """The rest beside its label, also where it takes several lines."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=width)
    grid.add_column(overflow="fold")
    grid.add_row(label, rest)
    return grid


def _table(sheet: Block, width: int) -> Table:
    # Spelled out before they are measured: they take more room then.
    lines = [[visible_line(text) for text in row] for row in sheet.rows]
    widths = _widths(sheet, lines, width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column, wide in zip(sheet.columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        table.add_column(Text(column.heading), justify=justify, overflow="fold", width=wide)
    for number, line in enumerate(lines):
        if number in sheet.breaks:
            table.add_section()
        table.add_row(*(_styled(_broken(*one)) for one in zip(line, widths, strict=True)))
    return table


def _widths(sheet: Block, lines: Sequence[Sequence[str]], width: int) -> list[int | None]:
    """The widths of the columns where room is short, first of names, then of numbers.

    An interval breaks between its ends, a name between its words or after a slash, and within
    these only if they are longer than a third of the width.
    """
    cells = [[one.heading, *several] for one, *several in zip(sheet.columns, *lines, strict=True)]
    longest = [max(map(cell_len, several)) for several in cells]
    parts = [[part for text in several for part in _PART.findall(text)] for several in cells]
    least = [max(1, min(width // 3, max(map(cell_len, several), default=1))) for several in parts]
    room = width - 2 * len(cells)
    if sum(longest) <= room or sum(least) > room:
        return [None] * len(cells)
    numbers = [place for place, column in enumerate(sheet.columns) if column.numeric]
    names = [place for place in range(len(cells)) if place not in numbers]
    found = least.copy()
    half = max(0, width // 2 - sum(least[place] for place in names))
    for places, most in ((names, half), (numbers, room), (names, room)):
        left = min(most, room - sum(found))
        for number, place in enumerate(sorted(places, key=lambda one: longest[one] - found[one])):
            more = max(0, min(longest[place] - found[place], left // (len(places) - number)))
            found[place] += more
            left -= more
    return [*found]


def _broken(text: str, width: int | None) -> str:
    """The text, of which words that are longer than a column are broken after a slash."""
    words = text.split(" ")
    for place, word in enumerate(words):
        lines = [""]
        for part in _PART.findall(word) if width else [word]:
            if width and lines[-1] and cell_len(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
        words[place] = "\n".join(lines)
    return " ".join(words)


def _styled(text: str) -> Text:
    """The text, whose first word may have a colour."""
    styled = Text(text)
    first = styled.plain.partition(" ")[0]
    styled.stylize(_STYLES.get(first, ""), 0, len(first))
    return styled
