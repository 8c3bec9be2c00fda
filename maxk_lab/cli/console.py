"""Output of all verbs: messages to stderr; JSON, fields and tables to stdout."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from maxk_lab.errors import LONGEST, SpecError, shortened
from maxk_lab.visible import visible, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console

# Tables for a file or a pipe are not limited to 80 columns.
PIPE_WIDTH = 200


def console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout, or on stderr."""
    # Verbs without layout do not import rich.
    from maxk_lab.reports.formats.plain_console import PlainConsole

    stream = sys.stderr if stderr else sys.stdout
    return PlainConsole(
        file=stream,
        width=None if stream.isatty() else PIPE_WIDTH,
        soft_wrap=not stream.isatty(),
    )


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table without rules: rich takes .3 ms to lay out a row.

    Values that are not texts are converted.
    """
    from rich.cells import cell_len, set_cell_size

    table = [[visible_line(str(cell)) for cell in row] for row in (headings, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    first, *lines = ("  ".join(map(set_cell_size, row, widths)).rstrip() for row in table)
    typer.secho(first, bold=True)
    emit("".join(f"{line}\n" for line in lines))


def print_fields(fields: Mapping[str, Any], indent: int = 0) -> None:
    """Print the fields with a value, one per line; indent the fields of a mapping."""
    present = {key: value for key, value in fields.items() if value not in (None, "", [], (), {})}
    width = max(
        (len(key) for key, value in present.items() if not isinstance(value, dict)), default=0
    )
    pad = "  " * indent
    for key, value in present.items():
        if isinstance(value, dict):
            typer.echo(pad + typer.style(visible_line(key), bold=True))
            print_fields(value, indent + 1)
        else:
            label = typer.style(visible_line(key).ljust(width), dim=True)
            typer.echo(f"{pad}{label}  " + f"\n{pad}{'':{width}}  ".join(_lines(value)))


def _lines(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, list) and any(" " in str(entry) for entry in value):
        return [visible(line) for entry in value for line in str(entry).splitlines()]
    if isinstance(value, list | tuple):
        value = (", " if isinstance(value, tuple) else " ").join(map(str, value))
    return visible(str(value)).strip("\n").splitlines() or [""]


def print_line(text: str, *, bold: bool = False) -> None:
    """Print a line of the result on stdout."""
    typer.secho(visible(text), bold=bold or None)


def emit(text: str) -> None:
    """Print text on stdout unchanged; the writer has escaped it."""
    typer.echo(text, nl=False)


def say(text: str = "", mark: str = "", colour: str = "") -> None:
    """Print a line of progress or advice on stderr; `typer.echo` would print it over a bar."""
    if mark and sys.stderr.isatty():
        mark = typer.style(mark, fg=colour, bold=True)
    with suppress(OSError):  # if stderr fails, as on a full disk, the work continues
        print(mark + visible(text), file=sys.stderr)


def complain(error: Exception | str) -> None:
    """Print a user's mistake on stderr, with a line for every problem of a sweep file."""
    problems = error.problems if isinstance(error, SpecError) else []
    for problem in problems:
        say(str(problem))
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}; nothing was run"
    say(count if problems else str(error), "error: ", "red")


def warn(text: str) -> None:
    """Print a warning on stderr."""
    say(text, "warning: ", "yellow")


def emit_json(value: Any) -> None:
    """Print `value` as JSON, alone on stdout; see `plain` for NaN and infinities."""
    emit(visible_json(value, indent=2) + "\n")


def duration(seconds: float) -> str:
    """Return measured seconds as `42 s`, `3 min 20 s` or `2 h 05 min`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def estimate(seconds: float) -> str:
    """Return estimated seconds, rounded to tens of seconds or to minutes."""
    minutes = round(seconds / 60)
    if seconds < 55:
        return f"about {max(10, 10 * round(seconds / 10))} s"
    return f"about {minutes} min" if minutes < 60 else f"about {duration(60 * minutes)}"


def refusal(error: OSError | MemoryError) -> str | None:
    """Return the message about an operation that the system refused, with the file if any.

    None if the error may be a bug of ours, such as a missing file or a closed pipe.
    """
    if isinstance(error, MemoryError):
        return "out of memory"
    if error.errno in (None, errno.ENOENT, errno.EPIPE):
        return None
    file = f"{shortened(str(error.filename), LONGEST)}: " if error.filename else ""
    return f"{file}{error.strerror}"
