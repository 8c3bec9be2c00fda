"""`maxk-lab measure`: the report of a gradient study on rewards and gradients in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.cli.console import console, emit, say


def main(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.npz",
            help="Arrays: rewards of prompts x samples, and their scores or gram.",
        ),
    ],
    n: Annotated[
        list[int] | None, typer.Option("--n", "-n", min=1, help="Samples of a group. Repeatable.")
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", "-k", min=1, help="A K. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report and figures into this folder.")
    ] = None,
    format: Annotated[str, typer.Option(metavar="NAME", help="How it is printed.")] = "terminal",
) -> None:
    """Measure which estimator and baseline the samples of your own training call for.

    The file has the rewards of samples of some prompts, and the gradients of their
    log-probabilities: as they are, as maxk_lab.GradientSketch makes them, or as their products.
    Of rewards alone it is said what can be said without gradients, as maxk-lab audit does.

    \b
    [bold]maxk-lab measure samples.npz -n 8 -k 1 -k 4[/bold]
    """
    from maxk_lab.cli.verbs.audit import show
    from maxk_lab.own.audit import Audit
    from maxk_lab.own.measure import measured_file
    from maxk_lab.reports.formats.render import rendered
    from maxk_lab.reports.report import Report
    from maxk_lab.reports.write import write_report

    found = measured_file(file, n=n or (), k=k or ())
    if isinstance(found, Audit):
        show(found)
        return
    if out is not None:
        files = write_report(found, out)
        say(f"Wrote {files[0]} and {len(files) - 1} more")
    terminal = sys.stdout.isatty()
    width = console().width if terminal else 100
    emit(rendered(Report(found, colour=terminal, width=width), format))
