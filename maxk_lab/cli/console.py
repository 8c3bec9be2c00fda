"""Output that the verbs share: messages to stderr, JSON and rich tables to stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from maxk_lab.errors import SpecError
from maxk_lab.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

# Between the columns of a table.
_BETWEEN = "  "
# Tables that go to a file or a pipe are not squeezed into 80 columns.
PIPE_WIDTH = 200


def console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout, or on stderr."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        file=stream,
        width=None if stream.isatty() else PIPE_WIDTH,
        highlight=False,
        soft_wrap=not stream.isatty(),
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without lines, whose cells are plain text of one line.

    rich takes half a millisecond for each row: it lays out those that do not fit alone.
    """
    out = console()
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
    out.print(first, style="bold", markup=False)
    out.file.writelines(f"{line}\n" for line in others)
    out.file.flush()


def _print_with_rich(out: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(*map(escape, headings), box=None, pad_edge=False)
    for row in rows:
        # Text of the user's own, such as affine[0.5], must not be read as markup.
        table.add_row(*map(escape, row))
    out.print(table)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def say(text: str = "") -> None:
    """Print a line of progress or advice on stderr."""
    typer.echo(text, err=True)


def complain(error: Exception | str) -> None:
    """Print a user's mistake on stderr, with a line for every problem of a sweep file."""
    mark = typer.style("error:", fg="red", bold=True)
    if isinstance(error, SpecError) and error.problems:
        for problem in error.problems:
            say(str(problem))
        count = len(error.problems)
        say(f"{mark} {count} problem{'' if count == 1 else 's'}; nothing was run")
    else:
        say(f"{mark} {error}")


def warn(text: str) -> None:
    """Print a warning on stderr."""
    say(f"{typer.style('warning:', fg='yellow', bold=True)} {text}")


def emit_json(value: Any) -> None:
    """Print `value` as JSON, alone on stdout; see `plain` for NaN and infinities."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False, default=str))


def duration(seconds: float) -> str:
    """Return seconds as `42 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
