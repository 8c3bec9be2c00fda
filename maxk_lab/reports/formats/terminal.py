"""A report for the terminal: rich tables within a width, in colour on demand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from maxk_lab.reports.document import Block, label_of, with_captions
from maxk_lab.reports.formats.plain_console import PlainConsole
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
_LABEL = 10
# A space without line break, in an interval and before a unit.
_TIE = "\ue000"
_INTERVAL = re.compile(r"(?<=\d,) (?=[^][]*\])|(?<=\]) (?=†)")
_UNIT = re.compile(r"(?<=\d) (?=[%†])")


def terminal(report: Report, *, width: int = 100, colour: bool = False, full: bool = False) -> str:
    """Return the report as text of at most `width` columns; ANSI codes only with `colour`.

    Folded blocks are left out unless `full`.
    """
    blocks = report.blocks if full else report.short_blocks
    return printed(report.title, blocks, width=width, colour=colour, full=full)


def printed(
    title: str,
    blocks: Iterable[Block],
    *,
    width: int = 100,
    colour: bool = False,
    full: bool = True,
) -> str:
    """Return the blocks below their title, as `terminal` prints them."""
    out = StringIO()
    console = PlainConsole(
        file=out,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        legacy_windows=False,
    )
    console.print(Text(title, style="bold"))
    _print_all(console, blocks, full=full)
    lines = (line.rstrip().replace(_TIE, " ") for line in out.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _print_all(console: PlainConsole, blocks: Iterable[Block], *, full: bool) -> None:
    for block in with_captions(blocks):
        if block.folded and full:
            console.print()
            console.print(Rule(Text(block.title), characters="─", style="dim"))
            _print_all(console, block.folded, full=full)
        elif not block.folded and not block.pictures:
            _print(console, block)


def _print(console: PlainConsole, block: Block) -> None:
    if block.title:
        console.print()
        console.print(Text(block.title, style="bold"))
    before = ""
    for line in block.lines:
        label, text = label_of(line) if block.labelled else ("", line)
        heading = Text("" if label == before else label, style="bold")
        before = label
        console.print(_indented(heading, text) if label else Text(line))
    for item in block.items:
        console.print(_indented(Text("-"), item, 1))
    if block.columns:
        console.print(_table(block, console.width))
    for line in block.caption:
        console.print(Text(_UNIT.sub(_TIE, line), style="dim"))


def _indented(label: Text, text: str, width: int = _LABEL) -> Table:
    """Return the text to the right of its label, with all lines indented."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=width)
    grid.add_column(overflow="fold")
    grid.add_row(label, _styled(_UNIT.sub(_TIE, text)))
    return grid


def _table(block: Block, width: int) -> Table:
    """Return the table of a block; if it is too wide, a value stands above its interval."""
    lines = [[_INTERVAL.sub(_TIE, visible_line(text)) for text in row] for row in block.rows]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    headings = [column.heading for column in block.columns]
    cells = list(zip(headings, *lines, strict=True))
    numeric = [column.numeric for column in block.columns]
    for column, wide in zip(block.columns, _widths(cells, numeric, width), strict=True):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        table.add_column(Text(column.heading), justify=justify, overflow="fold", width=wide)
    for number, line in enumerate(lines):
        if number in block.breaks:
            table.add_section()
        table.add_row(*map(_styled, line))
    return table


def _widths(
    columns: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[int | None]:
    """Return the width of each column of texts; None if rich may choose.

    If the table is too wide, a number is as wide as its longest word, and words share the rest.
    """
    full = [max(map(cell_len, texts)) for texts in columns]
    if sum(full) + 2 * (len(full) - 1) <= width:
        return [None] * len(full)
    words = [[cell_len(word) for text in texts for word in text.split()] for texts in columns]
    least = [min(max(lengths, default=1), width // 3) for lengths in words]
    rest = width - sum(least) - 2 * (len(least) - 1)
    if rest < 0:
        return [size if right else None for size, right in zip(least, numeric, strict=True)]
    widths: list[int | None] = []
    for size, natural, right in zip(least, full, numeric, strict=True):
        more = 0 if right else min(rest, natural - size)
        rest -= more
        widths.append(size + more)
    return widths


def _styled(text: str) -> Text:
    """Return the text; its first word may have a colour."""
    styled = Text(visible_line(text))
    first = styled.plain.partition(" ")[0]
    styled.stylize(_STYLES.get(first, ""), 0, len(first))
    return styled
