"""`maxk-lab report`: tables, figures and verdicts on the claims of finished runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit, print_line, say, warn
from maxk_lab.errors import LabError
from maxk_lab.execution.archive import find_run
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.formats.render import FILES, FORMATS, check_format, rendered_together
from maxk_lab.reports.report import Report, changed_line, read_report
from maxk_lab.reports.selection import part_of
from maxk_lab.reports.write import write_report


def main(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Names or folders; the latest run if left out."),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help=f"How the report is printed: {', '.join(FORMATS)}.")
    ] = "terminal",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Write every format and the figures here; print the verdicts."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Also print all tables.")] = False,
    where: options.Where = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLUMN,...", help="Print one table with these CSV columns."),
    ] = None,
) -> None:
    """Report a run: the answer, a verdict on each claim, and the tables behind them.

    A row must match every axis of --where; values of one axis are alternatives. Claims are \
judged on the whole run. With --columns the report is one table; --format latex prints it for a \
paper. With several runs, --out has a folder for each.

    Exits with 1 if a claim is refuted or cannot be judged, or cells failed.

    \b
    [bold]maxk-lab report[/bold]                                    the latest run
    [bold]maxk-lab report tsp_sweep --format html > page.html[/bold]   for a browser
    [bold]maxk-lab report tsp_sweep --out DIR[/bold]                every format and figure
    [bold]maxk-lab report tsp_sweep --columns baseline,variance --format latex[/bold]
    """
    results = options.shared(context).results
    check_format(format)
    if format == "html" and out is None and sys.stdout.isatty():
        words = shlex.join(["maxk-lab", "report", *(runs or ()), "--format", format])
        raise LabError(
            f"a terminal cannot show {format}; keep it in a file: {words} > {FILES[format]}"
        )
    if out == "":
        raise LabError("--out needs the name of a folder, and got an empty one")
    reports = []
    directories = [find_run(name, results) for name in runs or (None,)]
    names = [directory.name for directory in directories]
    if out is not None and (twice := [name for name in names if names.count(name) > 1]):
        raise LabError(f"--out has one folder for each name, and two runs are named {twice[0]}")
    for directory in directories:
        plan = make_plan(directory.spec())
        every = read_report(directory, plan)
        reports.append((directory, part_of(every, plan, where=where, columns=columns)))
    sound = all(report.sound for _, report in reports)
    if out is not None:
        sound &= _write(reports, Path(out))
    else:
        _print(reports, format, full=full)
    for origin in (report.origin for _, report in reports):
        if origin.changed:
            warn(f"{origin.name}: {changed_line(origin.changed)}")
    if not sound:
        raise typer.Exit(1)


def _print(reports: Sequence[tuple[RunDirectory, Report]], format: str, *, full: bool) -> None:
    """Print the reports; on a terminal also the commands that show more."""
    if format != "terminal":
        emit(rendered_together([report for _, report in reports], format))
        return
    terminal = sys.stdout.isatty()
    width = console().width if terminal else 100
    looks = {"colour": terminal, "width": width, "full": full}
    emit(rendered_together([report for _, report in reports], format, **looks))
    for directory, report in reports:
        words = shlex.join(["maxk-lab", "report", str(directory.place)])
        if not report.selection and not full:
            say(f"All tables: {words} --full")
        say(f"As files, with figures: {words} --out {shlex.quote(str(directory.report_path))}")


def _write(reports: Sequence[tuple[RunDirectory, Report]], out: Path) -> bool:
    """Write the files, several runs in a folder each; return whether all figures were drawn."""
    undrawn: list[str] = []
    for directory, report in reports:
        folder = out / directory.name if len(reports) > 1 else out
        paths = write_report(report, folder, failed=undrawn.append)
        for line in (*report.status, *_verdicts(report)):
            print_line(line)
        figures = sum(path.suffix == ".png" for path in paths)
        drawn = f"{figures} figure{'' if figures == 1 else 's'}; {len(paths)} files in all"
        say(f"Wrote {folder}/report.html for a browser, report.md, {drawn}")
    for line in undrawn:
        warn(f"{line}; this is a bug of maxk-lab, and the rest of the report is complete")
    return not undrawn


def _verdicts(report: Report) -> Iterator[str]:
    """Yield the verdicts on claims, and the failures."""
    # If nothing was measured, the first lines suffice.
    if not report.origin.done:
        return
    for claim in report.claims:
        yield f"{claim.verdict.upper():<9}  {claim.name}"
        if claim.verdict != "supported":
            yield f"           {claim.text}\n           {claim.detail}"
    yield from (f"FAILED     {line}" for line in report.origin.failures)
