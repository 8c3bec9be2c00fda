"""`maxk-lab bundle`: a run as one file, to share, to keep, and to continue elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import print_line, say, warn
from maxk_lab.errors import LabError, first_line
from maxk_lab.execution.archive import BUNDLE, find_run, has_manifest, write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.reports.report import read_report
from maxk_lab.reports.write import report_files

_OF_REPORT = ("markdown", "csv")


def main(
    context: typer.Context,
    run: options.Run,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write, or a folder; NAME.zip by default."),
    ] = None,
) -> None:
    """Write a run into one file: records, sweep, cached evaluation data, and the report as text.

    report, show and plan read the file on any machine; run unpacks and continues it. The file \
lacks your code, files that the sweep names, and trained policies; to keep them, copy the folder \
of the run. Equal runs give equal files.

    \b
    [bold]maxk-lab bundle tsp_training[/bold]                       writes tsp_training.zip
    [bold]maxk-lab bundle tsp_training --out shared/[/bold]
    [bold]maxk-lab report tsp_training.zip[/bold]
    [bold]maxk-lab run tsp_training.zip[/bold]                      continues the run
    """
    results = options.shared(context).results
    directory = find_run(run, results).for_writing("a new bundle")
    path = _path(directory, out)
    written = write_bundle(directory, path, report=_report(directory))
    planned = written.records + written.missing
    size = path.stat().st_size / 1e6
    print_line(f"{written.path}  {size:.2f} MB, {written.records} of {planned} records")
    if written.stale:
        say(f"{written.stale} stale records of an earlier sweep or version are not in it")
    if written.absent:
        say(f"The sweep names files and code that are not in it: {', '.join(written.absent)}")
    if written.missing:
        say(f"To continue the run: maxk-lab run {written.path}")
    say(f"Next: maxk-lab report {written.path}")


def _path(run: RunDirectory, out: Path | None) -> Path:
    """Return the path of the bundle. Raises `LabError` if another file is there."""
    path = Path(f"{run.name}{BUNDLE}") if out is None else out
    if path.is_dir():
        path = path / f"{run.name}{BUNDLE}"
    if path.suffix != BUNDLE:
        raise LabError(f"--out {path}: the name of a bundle ends with {BUNDLE}")
    if os.path.lexists(path) and not has_manifest(path):
        raise LabError(f"{path} is there, and is no bundle; remove it, or choose another --out")
    return path


def _report(run: RunDirectory) -> dict[str, bytes]:
    """Return the files of the report as text, by name."""
    try:
        return report_files(read_report(run), _OF_REPORT)
    except Exception as error:
        # A run is bundled even if its report fails.
        warn(f"the report is not in it: {type(error).__name__}: {first_line(error)}")
        return {}
