"""`maxk-lab compare`: compare the numbers of two runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit, say
from maxk_lab.results.compare import compare
from maxk_lab.results.text import FORMATS, comparison_text

FailOn = StrEnum("FailOn", ["worse", "changed", "missing"])


def main(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A run: its name, folder or bundle.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The run to compare with A.")],
    format: Annotated[
        str, typer.Option(metavar="NAME", help=f"The format: {', '.join(FORMATS)}.")
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
        typer.Option(
            "--fail-on",
            metavar="WORD",
            help="Exit with 1 if anything is worse, changed or missing. Repeatable.",
        ),
    ] = None,
) -> None:
    """Compare run B with run A, with a verdict for each number.

    Rows are matched by name, numbers by measure. The first line names the differences between \
the runs; the significant differences follow. Verdicts are corrected for all numbers that differ. \
With --where or --measure, smaller differences are significant.

    --fail-on worse: a number or a claim's verdict is worse; changed: anything differs; missing: \
B lacks results or supported claims of A.

    \b
    [bold]maxk-lab compare tsp_sweep before/tsp_sweep[/bold]
    [bold]maxk-lab compare golden.zip tsp_sweep --fail-on worse[/bold]   in CI
    [bold]maxk-lab compare A B --measure variance --where k=8 --format markdown[/bold]
    """
    results = options.shared(context).results
    comparison = compare(a, b, where=where, measures=measures or (), results=results)
    terminal = sys.stdout.isatty()
    width = console().width if terminal else 120
    emit(comparison_text(comparison, format, width=width, colour=terminal))
    failed = [change for change in fail_on or () if getattr(comparison, change)]
    if fail_on and comparison.numbers.empty:
        say("No row has all of its results in both runs: nothing could be compared")
    if failed:
        say(f"B differs from A: {', '.join(failed)}")
        raise typer.Exit(1)
