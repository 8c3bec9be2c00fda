"""A report for the terminal: rich tables within a given width, in colour where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from rich import box
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from maxk_lab.report.document import Block, label_of, with_captions
from maxk_lab.report.formats.console import PlainConsole
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.report.report import Report

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
        console.print(_beside(Text("-"), _styled(item), 1))
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
    # An interval breaks between its ends; a name would break within a word, and does so only
    # where room is short.
    longest = [
        max(len(column.heading), *(len(row[place]) for row in sheet.rows), 0) + 2
        for place, column in enumerate(sheet.columns)
        if not column.numeric
    ]
    whole = sum(longest) <= width / 2
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in sheet.columns:
        table.add_column(
            Text(column.heading),
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=whole and not column.numeric,
        )
    for number, row in enumerate(sheet.rows):
        if number in sheet.breaks:
            table.add_section()
        table.add_row(*map(_styled, row))
    return table


def _styled(text: str) -> Text:
    """The text, whose first word may have a colour."""
    # Spelled out before it is measured: it takes more room then.
    styled = Text(visible_line(text))
    first = styled.plain.partition(" ")[0]
    styled.stylize(_STYLES.get(first, ""), 0, len(first))
    return styled
