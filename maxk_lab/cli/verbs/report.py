"""`maxk-lab report`: tables, figures and verdicts on the claims of finished runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit, say, tell, warn
from maxk_lab.errors import LabError
from maxk_lab.errors import shown as quoted
from maxk_lab.execution.archive import find_run
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.drawing import with_charts
from maxk_lab.reports.formats.render import FILES, FORMATS, check_format, rendered_together
from maxk_lab.reports.report import Report, changed_line, read_report
from maxk_lab.reports.selection import part_of
from maxk_lab.reports.write import write_report
from maxk_lab.sweep_file.studies import on_request


def main(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN...]", help="Names or folders; the latest run if left out."),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="|".join(FORMATS), help="How the report is printed.")
    ] = "terminal",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Write every format and the figures here; print the verdicts."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All tables in the terminal, too.")] = False,
    where: options.Where = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLUMN,...", help="One table with these columns of the CSV."),
    ] = None,
    figures: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help=f"More figures: {', '.join(on_request())}."),
    ] = None,
) -> None:
    """Report a run: the answer, a verdict on each claim, and the tables that they rest on.

    Of --where all axes must hold, values of one axis are alternatives; claims are judged on the \
whole run. With --columns the report is one table, as for a paper with --format latex. Of several \
runs --out has a folder each.

    Exits with 1 when a claim is refuted or cannot be judged, or cells failed.

    \b
    [bold]maxk-lab report[/bold]                                         the latest run
    [bold]maxk-lab report tsp_sweep --format html > tsp_sweep.html[/bold]    for a browser
    [bold]maxk-lab report tsp_sweep --out DIR --figures heat_map[/bold]      with one figure more
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
    more = _asked_figures(figures, shows=out is not None or format == "html")
    reports = []
    for name in runs or (None,):
        directory = find_run(name, results)
        plan = make_plan(directory.spec())
        every = read_report(directory, plan)
        reports.append((directory, part_of(every, plan, where=where, columns=columns)))
    sound = all(report.sound for _, report in reports)
    if out is not None:
        sound &= _write(reports, Path(out), more)
    else:
        _print(reports, format, full=full, more=more)
    for origin in (report.origin for _, report in reports):
        if origin.changed:
            warn(f"{origin.name}: {changed_line(origin.changed)}")
    if not sound:
        raise typer.Exit(1)


def _asked_figures(names: str | None, *, shows: bool) -> list[str]:
    """Return the figures that are asked for. Raises `LabError` for others, or where none shows."""
    more = [name for name in (names or "").split(",") if name]
    if unknown := [name for name in more if name not in on_request()]:
        raise LabError(f"--figures: no {quoted(unknown[0])}; there are {', '.join(on_request())}")
    if more and not shows:
        raise LabError("--figures needs --out DIR or --format html, which show figures")
    return more


def _print(
    reports: Sequence[tuple[RunDirectory, Report]], format: str, *, full: bool, more: Sequence[str]
) -> None:
    """Print the reports; in a terminal with the commands that show more of them."""
    if format != "terminal":
        printed = [with_charts(report, more) if more else report for _, report in reports]
        emit(rendered_together(printed, format))
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


def _write(reports: Sequence[tuple[RunDirectory, Report]], out: Path, more: Sequence[str]) -> bool:
    """Write the files, of several runs in a folder each; return whether no figure has a fault."""
    undrawn: list[str] = []
    for directory, report in reports:
        folder = out / directory.name if len(reports) > 1 else out
        paths = write_report(report, folder, more=more, failed=undrawn.append)
        for line in (*report.status, *_verdicts(report)):
            tell(line)
        figures = sum(path.suffix == ".png" for path in paths)
        drawn = f"{figures} figure{'' if figures == 1 else 's'}; {len(paths)} files in all"
        say(f"Wrote {folder}/report.html for a browser, report.md, {drawn}")
    for line in undrawn:
        warn(f"{line}; this is a fault of maxk-lab, and touches nothing else of the report")
    return not undrawn


def _verdicts(report: Report) -> Iterator[str]:
    """Yield the verdicts on claims, and what failed."""
    # Where nothing was measured, the first lines say all.
    if not report.origin.done:
        return
    for claim in report.claims:
        yield f"{claim.verdict.upper():<9}  {claim.name}"
        if claim.verdict != "supported":
            yield f"           {claim.text}\n           {claim.detail}"
    yield from (f"FAILED     {line}" for line in report.origin.failures)
