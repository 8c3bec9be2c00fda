"""`maxk-lab report`: tables, figures and verdicts on the claims of finished runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit, say, tell, warn
from maxk_lab.cli.runs import mending
from maxk_lab.errors import LabError, shown
from maxk_lab.report.formats.render import CATALOGUE, rendered_together
from maxk_lab.report.model import Summary
from maxk_lab.report.report import Report, changed_line, failure_lines, standing_lines
from maxk_lab.report.summarise import summarise
from maxk_lab.report.view import View, asked_view
from maxk_lab.report.write import write_report, write_together
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.bundle import find_run
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.studies import on_request

_Shown = tuple[RunDirectory, Summary, View]


def main(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN...]", help="Names or folders; the latest run if left out."),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="|".join(CATALOGUE.names()), help="How the tables are printed.")
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
    results: options.Results = options.RESULTS,
) -> None:
    """Report a run: the answer, a verdict on each claim, and the tables that they rest on.

    Of --where all axes must hold, values of one axis are alternatives; claims are judged on the \
whole run. --sort -COLUMN has the largest first. Of several runs --out has a folder each, and a \
page of all.

    Exits with 1 when a claim is refuted or cannot be judged, cells failed or a record is damaged.

    \b
    [bold]maxk-lab report[/bold]                                     the latest run
    [bold]maxk-lab report tsp_sweep llm_bandit --format html > both.html[/bold]   for a browser
    [bold]maxk-lab report tsp_sweep --out DIR --figures heat_map[/bold]   with one figure more
    [bold]maxk-lab report tsp_sweep --where k=8,n=16 --sort variance[/bold]       a part of it
    """
    row = CATALOGUE.get(format)
    if row.for_programs and out is None and sys.stdout.isatty():
        words = shlex.join(["maxk-lab", "report", *(runs or ()), "--format", format])
        raise LabError(f"a terminal cannot show {format}; keep it in a file: {words} > {row.file}")
    more = [figure for figure in (figures or "").split(",") if figure]
    unknown = [figure for figure in more if figure not in on_request()]
    if unknown:
        raise LabError(f"--figures: no {shown(unknown[0])}; there are {', '.join(on_request())}")
    if more and out is None and format != "html":
        raise LabError("--figures needs --out DIR or --format html, which show figures")
    if out == "":
        raise LabError("--out needs the name of a folder, and got an empty one")
    runs_shown: list[_Shown] = []
    for name in runs or (None,):
        directory = find_run(name, results)
        plan = make_plan(directory.spec())
        view = asked_view(plan, where=where, sort=sort, columns=columns)
        runs_shown.append((directory, summarise(directory, plan), view))
    undrawn = 0
    if out is None:
        _print(runs_shown, format, full=full, more=more)
    else:
        undrawn = _write(runs_shown, Path(out), more)
    for directory, summary, _ in runs_shown:
        if summary.changed:
            warn(f"{summary.header.name}: {changed_line(summary.changed)}")
        if summary.problems:
            mend = mending(directory, summary.problems)
            warn(f"{len(summary.problems)} damaged records are not used; {mend}")
    if undrawn or not all(summary.sound for _, summary, _ in runs_shown):
        raise typer.Exit(1)


def _print(runs: list[_Shown], format: str, *, full: bool, more: Sequence[str]) -> None:
    colour = sys.stdout.isatty()
    width = console().width if colour else 100
    # Nobody folds out what a terminal has printed.
    whole = full or format != "terminal"
    reports = [
        Report(one, view=view, colour=colour, width=width, full=whole, more=more)
        for _, one, view in runs
    ]
    emit(rendered_together(reports, format))
    for directory, _, view in runs if format == "terminal" else ():
        words = ["maxk-lab", "report", str(directory.place)]
        if view.whole and not full:
            say(f"All tables: {shlex.join([*words, '--full'])}")
        say(f"As files, with figures: {shlex.join([*words, '--out', str(directory.report_path)])}")


def _write(runs: list[_Shown], out: Path, more: Sequence[str]) -> int:
    """Write the files, of several runs in a folder each; return how many figures have a fault."""
    together = len(runs) > 1
    undrawn = 0
    for directory, summary, view in runs:
        folder = out / directory.name if together else out
        undrawn += _write_one(summary, folder, view, more)
    if together:
        write_together([Report(one, view=view, more=more) for _, one, view in runs], out)
        say(f"Wrote {out}/report.html: all of them side by side")
    return undrawn


def _write_one(summary: Summary, folder: Path, view: View, more: Sequence[str]) -> int:
    """Write the files; print verdicts and failures, and say where the rest is."""
    undrawn: list[str] = []
    paths = write_report(summary, folder, view=view, more=more, failed=undrawn.append)
    for line in standing_lines(summary):
        tell(line)
    # Where nothing was measured, the first lines have told all there is.
    for claim in summary.claims if summary.counts.done else ():
        tell(f"{claim.verdict.upper():<9}  {claim.name}")
        if claim.verdict != "supported":
            tell(f"           {claim.text}\n           {claim.detail}")
    for line in failure_lines(summary) if summary.counts.done else ():
        tell(f"FAILED     {line}")
    for problem in summary.problems:
        tell(f"DAMAGED    {problem}")
    for line in undrawn:
        warn(f"{line}; this is a fault of maxk-lab, and touches nothing else of the report")
    figures = sum(path.suffix == ".png" for path in paths)
    drawn = f"{figures} figure{'' if figures == 1 else 's'}"
    say(f"Wrote {folder}/report.html for a browser, report.md, {drawn}; {len(paths)} files in all")
    return len(undrawn)
