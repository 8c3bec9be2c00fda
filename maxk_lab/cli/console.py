"""Output that the verbs share: messages to stderr, JSON and rich tables to stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from maxk_lab.errors import SpecError
from maxk_lab.visible import visible, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console

# Between the columns of a table.
_BETWEEN = "  "
# Tables that go to a file or a pipe are not squeezed into 80 columns.
PIPE_WIDTH = 200


def console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout, or on stderr."""
    from maxk_lab.report.formats.console import PlainConsole

    stream = sys.stderr if stderr else sys.stdout
    return PlainConsole(
        file=stream,
        width=None if stream.isatty() else PIPE_WIDTH,
        soft_wrap=not stream.isatty(),
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without lines, with each cell on one line.

    rich takes half a millisecond for each row: it lays out those that do not fit alone.
    """
    out = console()
    headings, *rows = ([visible_line(cell) for cell in row] for row in (headings, *rows))
    sizes = [[_width(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    if sum(widths) + len(_BETWEEN) * (len(widths) - 1) > out.width:
        _print_with_rich(out, headings, rows)
        return
    first, *others = (
        _BETWEEN.join(
            cell + " " * (width - size) for cell, width, size in zip(row, widths, used, strict=True)
        )
        for row, used in zip((headings, *rows), sizes, strict=True)
    )
    out.print(first, style="bold")
    out.file.writelines(f"{line}\n" for line in others)
    out.file.flush()


def _print_with_rich(out: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def tell(text: str) -> None:
    """Print a line of the result on stdout."""
    typer.echo(visible(text))


def emit(text: str) -> None:
    """Print on stdout, as it is, what a writer has made that escapes by itself."""
    typer.echo(text, nl=False)


def say(text: str = "") -> None:
    """Print a line of progress or advice on stderr."""
    typer.echo(visible(text), err=True)


def complain(error: Exception | str) -> None:
    """Print a user's mistake on stderr, with a line for every problem of a sweep file."""
    if isinstance(error, SpecError) and error.problems:
        for problem in error.problems:
            say(str(problem))
        count = len(error.problems)
        _say_marked("error:", "red", f"{count} problem{'' if count == 1 else 's'}; nothing was run")
    else:
        _say_marked("error:", "red", str(error))


def warn(text: str) -> None:
    """Print a warning on stderr."""
    _say_marked("warning:", "yellow", text)


def _say_marked(mark: str, colour: str, text: str) -> None:
    typer.echo(f"{typer.style(mark, fg=colour, bold=True)} {visible(text)}", err=True)


def emit_json(value: Any) -> None:
    """Print `value` as JSON, alone on stdout; see `plain` for NaN and infinities."""
    emit(visible_json(value, indent=2) + "\n")


def duration(seconds: float) -> str:
    """Return seconds as `42 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
