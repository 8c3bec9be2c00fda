"""`maxk-lab measure`: the report of a gradient study on rewards and gradients in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.cli.console import console, emit, say
from maxk_lab.errors import LabError


def main(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Arrays in an .npz or .pt file: rewards, scores or gram.",
        ),
    ],
    n: Annotated[
        list[int] | None,
        typer.Option("--n", "-n", metavar="N", min=1, help="Samples of a group. Repeatable."),
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", "-k", metavar="K", min=1, help="A K. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report and figures into this folder.")
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="The format of the report.")
    ] = "terminal",
) -> None:
    """Measure which estimator and baseline suit the samples of your own training.

    The file holds the rewards of samples, and `scores`, the gradients of their log-probabilities
    (or maxk_lab.GradientSketch's projections), or `gram`, the products of these gradients. With
    rewards alone the command prints an audit. An .npy file holds rewards alone.

    \b
    [bold]maxk-lab measure samples.npz -n 8 -k 1 -k 4[/bold]
    """
    from maxk_lab.cli.verbs.audit import show
    from maxk_lab.own.audit import Audit
    from maxk_lab.own.measure import measured_file
    from maxk_lab.reports.formats.render import rendered
    from maxk_lab.reports.write import write_report

    report = measured_file(file, n=n or (), k=k or ())
    if isinstance(report, Audit):
        if out is not None or format != "terminal":
            raise LabError(f"--out and --format need scores or gram, and {file} has neither")
        show(report)
        return
    if out is not None:
        files = write_report(report, out)
        say(f"Wrote {files[0]} and {len(files) - 1} more")
    terminal = sys.stdout.isatty()
    looks = {"colour": terminal, "width": console().width if terminal else 100}
    emit(rendered(report, format, **(looks if format == "terminal" else {})))
