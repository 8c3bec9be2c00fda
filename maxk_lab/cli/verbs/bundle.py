"""`maxk-lab bundle`: a run as one file, to hand on, to keep, and to go on with elsewhere."""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import say, tell, warn
from maxk_lab.errors import LabError, first_line
from maxk_lab.execution.bundle import BUNDLE, find_run, has_manifest, write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.reports.report import read_report
from maxk_lab.reports.write import report_files, write_report

_OF_REPORT = ("markdown", "csv")
# The parts of a run that go into a bundle only if they are asked for.
More = StrEnum("More", ["figures", "checkpoints"])


def main(
    context: typer.Context,
    run: options.Run,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write, or a folder; NAME.zip by default."),
    ] = None,
    more: Annotated[
        list[More] | None,
        typer.Option("--with", help="The figures of the report, or trained policies. Repeatable."),
    ] = None,
) -> None:
    """Write a run into one file: records, sweep, evaluation data, and the report as text.

    report, show and plan read it as it is, on any machine; run unpacks it and goes on. Nothing \
that runs is in it: your own rewards and plugins have to be installed where it goes on. Equal runs \
give equal files. --with figures adds the report in every format, with its figures; --with \
checkpoints trained policies and all else that the run has kept to go on from.

    \b
    [bold]maxk-lab bundle tsp_training[/bold]                       writes tsp_training.zip
    [bold]maxk-lab bundle tsp_training --with checkpoints --out shared/[/bold]
    [bold]maxk-lab report tsp_training.zip[/bold]
    [bold]maxk-lab run tsp_training.zip[/bold]                      goes on where it stopped
    """
    results = options.shared(context).results
    directory = find_run(run, results).for_writing("a new bundle")
    parts = set(more or ())
    path = _path(directory, out)
    report = _report(directory, figures="figures" in parts)
    written = write_bundle(directory, path, report=report, checkpoints="checkpoints" in parts)
    planned = written.records + written.missing
    tell(f"{written.path}  {written.size / 1e6:.2f} MB, {written.records} of {planned} records")
    if written.stale:
        say(f"{written.stale} stale records of an earlier sweep or version are not in it")
    for line in written.absent:
        say(f"Not in it, though the run names it: {line}")
    if written.missing:
        say(f"It goes on where it stopped with: maxk-lab run {written.path}")
    say(f"Next: maxk-lab report {written.path}")


def _path(run: RunDirectory, out: Path | None) -> Path:
    """Return where the bundle is written. Raises `LabError` where something else lies there."""
    path = Path(f"{run.name}{BUNDLE}") if out is None else out
    if path.is_dir():
        path = path / f"{run.name}{BUNDLE}"
    if path.suffix != BUNDLE:
        raise LabError(f"--out {path}: the name of a bundle ends with {BUNDLE}")
    if os.path.lexists(path) and not has_manifest(path):
        raise LabError(f"{path} is there, and is no bundle; remove it, or choose another --out")
    return path


def _report(run: RunDirectory, *, figures: bool) -> dict[str, bytes]:
    """Return the files of the report by their names: as text, or all with `figures`."""
    report = read_report(run)
    try:
        if not figures:
            return report_files(report, _OF_REPORT)
        with tempfile.TemporaryDirectory() as folder:
            paths = write_report(report, Path(folder), failed=warn)
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    except Exception as error:
        # A run is to be handed on even where its report has a fault.
        warn(f"the report is not in it: {type(error).__name__}: {first_line(error)}")
        return {}
