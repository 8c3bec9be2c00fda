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
from maxk_lab.execution.bundle import find_run
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.formats.render import FILES, FORMATS, check_format, rendered_together
from maxk_lab.reports.model import Summary
from maxk_lab.reports.report import Report, changed_line, failure_lines, standing_lines
from maxk_lab.reports.summarise import summarise
from maxk_lab.reports.view import asked_view
from maxk_lab.reports.write import write_report, write_together
from maxk_lab.sweep_file.studies import on_request


def main(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN...]", help="Names or folders; the latest run if left out."),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="|".join(FORMATS), help="How the tables are printed.")
    ] = "terminal",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Write every format and the figures here; print the verdicts."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All tables in the terminal, too.")] = False,
    where: options.Where = None,
    sort: Annotated[
        str | None, typer.Option(metavar="[-]COLUMN", help="Sort by a column of the CSV.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="COLUMN,...", help="Only these columns of the CSV.")
    ] = None,
    figures: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help=f"More figures: {', '.join(on_request())}."),
    ] = None,
) -> None:
    """Report a run: the answer, a verdict on each claim, and the tables that they rest on.

    Of --where all axes must hold, values of one axis are alternatives; claims are judged on the \
whole run. --sort -COLUMN has the largest first. Of several runs --out has a folder each, and a \
page of all.

    Exits with 1 when a claim is refuted or cannot be judged, or cells failed.

    \b
    [bold]maxk-lab report[/bold]                                     the latest run
    [bold]maxk-lab report tsp_sweep llm_bandit --format html > both.html[/bold]   for a browser
    [bold]maxk-lab report tsp_sweep --out DIR --figures heat_map[/bold]   with one figure more
    [bold]maxk-lab report tsp_sweep --where k=8,n=16 --sort variance[/bold]       a part of it
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
    terminal = out is None and sys.stdout.isatty()
    shown = []
    for name in runs or (None,):
        directory = find_run(name, results)
        plan = make_plan(directory.spec())
        report = Report(
            summarise(directory, plan),
            colour=terminal,
            width=console().width if terminal else 100,
            # Nobody folds out what a terminal has printed.
            full=full or out is not None or format != "terminal",
            view=asked_view(plan, where=where, sort=sort, columns=columns),
            more=more,
        )
        shown.append((directory, report))
    sound = all(report.summary.sound for _, report in shown)
    if out is not None:
        sound &= _write(shown, Path(out))
    else:
        emit(rendered_together([report for _, report in shown], format))
        for directory, report in shown if format == "terminal" else ():
            words = shlex.join(["maxk-lab", "report", str(directory.place)])
            if report.view.whole and not full:
                say(f"All tables: {words} --full")
            say(f"As files, with figures: {words} --out {shlex.quote(str(directory.report_path))}")
    for summary in (report.summary for _, report in shown):
        if summary.changed:
            warn(f"{summary.header.name}: {changed_line(summary.changed)}")
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


def _write(shown: Sequence[tuple[RunDirectory, Report]], out: Path) -> bool:
    """Write the files, of several runs in a folder each; return whether no figure has a fault."""
    together, undrawn = len(shown) > 1, list[str]()
    for directory, report in shown:
        folder, summary = out / directory.name if together else out, report.summary
        paths = write_report(
            summary, folder, view=report.view, more=report.more, failed=undrawn.append
        )
        for line in (*standing_lines(summary), *_verdicts(summary)):
            tell(line)
        figures = sum(path.suffix == ".png" for path in paths)
        drawn = f"{figures} figure{'' if figures == 1 else 's'}; {len(paths)} files in all"
        say(f"Wrote {folder}/report.html for a browser, report.md, {drawn}")
    for line in undrawn:
        warn(f"{line}; this is a fault of maxk-lab, and touches nothing else of the report")
    if together:
        write_together([report for _, report in shown], out)
        say(f"Wrote {out}/report.html: all of them side by side")
    return not undrawn


def _verdicts(summary: Summary) -> Iterator[str]:
    """Yield the verdicts on claims, and what failed."""
    # Where nothing was measured, the first lines have told all there is.
    for claim in summary.claims if summary.counts.done else ():
        yield f"{claim.verdict.upper():<9}  {claim.name}"
        if claim.verdict != "supported":
            yield f"           {claim.text}\n           {claim.detail}"
    yield from (f"FAILED     {line}" for line in failure_lines(summary) if summary.counts.done)
