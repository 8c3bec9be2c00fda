"""`maxk-lab compare`: what is the same, better, worse, new or gone in another run."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit, say
from maxk_lab.results.compare import comparison
from maxk_lab.results.compare.document import FORMATS, Document, format_of

FailOn = StrEnum("FailOn", ["worse", "changed", "missing"])


def main(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A run: its name, folder or bundle.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The run that is judged by A.")],
    format: Annotated[
        str, typer.Option(metavar="|".join(FORMATS), help="How it is printed.")
    ] = "terminal",
    where: options.Where = None,
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "--measure", metavar="NAME", help="Only this number, e.g. variance. Repeatable."
        ),
    ] = None,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option("--fail-on", help="Exit with 1 where anything of B is that. Repeatable."),
    ] = None,
) -> None:
    """Compare run B with run A: what is the same, better, worse, new or gone, and what was changed.

    Rows stand for each other by their axes. A row whose cells have the same ids and numbers to the
    last digit is identical. Else its numbers are set against each other: paired by seed and
    instance where both runs have the same ones, and with verdicts that are corrected for all that
    are compared. The fewer (--where, --measure), the smaller the differences that are significant.

    --fail-on worse: a number, or the verdict on a claim; changed: anything; missing: results or
    supported claims of A. Of --where all axes must hold, values of one axis are alternatives.

    \b
    [bold]maxk-lab compare tsp_sweep before/tsp_sweep[/bold]
    [bold]maxk-lab compare golden.zip tsp_sweep --fail-on worse --fail-on missing[/bold]   in CI
    [bold]maxk-lab compare A B --measure variance --where k=8 --format markdown[/bold]
    """
    results = options.shared(context).results
    make = format_of(format)
    compared = comparison.compare(a, b, where=where, measures=measures or (), results=results)
    terminal = sys.stdout.isatty()
    document = Document(compared, colour=terminal, width=console().width if terminal else 120)
    emit(make(document))
    failed = [change for change in fail_on or () if getattr(compared, change)]
    if fail_on and not compared.numbers:
        say("No row has all of its results in both runs: nothing could be compared, or be worse")
    if failed:
        say(f"B is not as A: {', '.join(failed)}")
        raise typer.Exit(1)
