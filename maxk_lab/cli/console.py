"""Output that the verbs share: messages to stderr, JSON and rich tables to stdout."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from maxk_lab.errors import SpecError
from maxk_lab.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

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


def say(text: str = "") -> None:
    """Print a line of progress or advice on stderr."""
    typer.echo(text, err=True)


def complain(error: Exception) -> None:
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
