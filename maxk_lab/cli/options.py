"""The arguments and options that several verbs share, so that each means the same everywhere."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

Spec = Annotated[
    Path, typer.Argument(metavar="SPEC", help="The sweep file, e.g. experiments/tsp_sweep.yaml.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value of the sweep, e.g. gradient.pool=64. Repeatable.",
    ),
]
Results = Annotated[
    Path,
    typer.Option(
        "--results", metavar="DIR", help="Where runs are kept, one folder per sweep name."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
RESULTS = Path("results")


def results_option(results: Path) -> str:
    """Return the option by which a suggested command finds the same results; empty by default."""
    return "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
