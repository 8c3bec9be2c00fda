"""The question before anything is removed, and sizes as the verbs that remove tell them."""

from __future__ import annotations

import sys

import typer

from maxk_lab.cli.console import say
from maxk_lab.errors import LabError


def confirm(question: str, *, yes: bool) -> None:
    """Go on where the answer is yes, and exit with 1 where it is no.

    Raises `LabError` where nobody can be asked.
    """
    if yes:
        return
    if not is_asked():
        raise LabError("nobody can be asked here, and nothing was removed; to do it: --yes")
    if not typer.confirm(question, err=True):
        say("Nothing was removed")
        raise typer.Exit(1)


def is_asked() -> bool:
    """Return whether somebody sits at a terminal."""
    return sys.stdin.isatty()


def counted_size(size: int) -> str:
    """Return a number of bytes for people, e.g. `5.7 MB`."""
    from rich.filesize import decimal

    return decimal(size)
