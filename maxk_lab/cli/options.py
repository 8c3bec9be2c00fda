"""The arguments and options that several verbs share, so that each means the same everywhere."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import RunDirectory

Spec = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC", help="The sweep file, e.g. experiments/tsp_sweep.yaml, or a bundle."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value of the sweep, e.g. gradient.pool=64. Repeatable.",
    ),
]
ShiftSeeds = Annotated[
    int,
    typer.Option(
        "--shift-seeds",
        min=0,
        metavar="N",
        help="Add N to every seed: the same sweep with other randomness. Keep its run apart, "
        "with --results.",
    ),
]
Results = Annotated[
    Path,
    typer.Option(
        "--results", metavar="DIR", help="Where runs are kept, one folder per sweep name."
    ),
]
NoReuse = Annotated[
    bool,
    typer.Option(
        "--no-reuse", help="Measure cells also where another run under --results has done them."
    ),
]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Worker processes, one thread each.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
RESULTS = Path("results")


def run_command(
    spec: Path,
    overrides: Sequence[str] | None,
    *more: str,
    shift_seeds: int = 0,
    results: Path = RESULTS,
) -> str:
    """Return the command line that runs a sweep."""
    said = [word for item in overrides or [] for word in ("--set", item)]
    said += ["--shift-seeds", str(shift_seeds)] if shift_seeds else []
    return shlex.join(["maxk-lab", "run", str(spec), *said, *more]) + results_option(results)


def report_command(run: str, results: Path) -> str:
    """Return the command line that reports a run."""
    return f"maxk-lab report {shlex.quote(run)}{results_option(results)}"


def results_option(results: Path) -> str:
    """Return the option by which a suggested command finds the same results; empty by default."""
    return "" if results == RESULTS else f" --results {shlex.quote(str(results))}"


def mending(run: RunDirectory, them: str = "them") -> str:
    """Return what to do about damaged records of a run."""
    if run.place != run.root:
        return "have the bundle sent again, or made anew"
    return f"to measure {them} again: maxk-lab run {shlex.quote(str(run.spec_path))} --force"


def jobs_commands(run: str, results: Path) -> list[str]:
    """Return what shows and what ends the jobs that a run has on a cluster, a line each."""
    where = f"{shlex.quote(run)}{results_option(results)}"
    return [
        f"What its jobs are doing: maxk-lab status {where}",
        f"To end its jobs: maxk-lab cancel {where}",
    ]
