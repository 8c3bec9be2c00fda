"""`maxk-lab report`: tables, figures and verdicts on the claims of finished runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit, say, tell, warn
from maxk_lab.errors import LabError
from maxk_lab.memory import kept_to_the_end
from maxk_lab.report.formats.catalogue import CATALOGUE

if TYPE_CHECKING:
    from maxk_lab.report.model import Summary
    from maxk_lab.report.view.view import View


def report(
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
            metavar="DIR",
            help="Write every format and the figures here, of several runs in a folder each, with "
            "a page of all; print the verdicts.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Print all tables in the terminal, too, not the short ones."),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS=VALUE,...",
            help="Show only these rows, as in 'k=8,baseline=centred': axes must all hold, values "
            "of one axis are alternatives. Claims are judged on the whole run.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="[-]COLUMN", help="Sort by a column of the CSV; -COLUMN: largest first."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...", help="Show only these columns of the CSV, in one table a study."
        ),
    ] = None,
    results: options.Results = options.RESULTS,
) -> None:
    """Report a run: the answer, a verdict on each claim, and the tables that they rest on.

    Exits with 1 when a claim is refuted or cannot be judged, cells failed or a record is damaged.

    \b
    [bold]maxk-lab report[/bold]                                     the latest run
    [bold]maxk-lab report tsp_sweep --full[/bold]                    with all tables
    [bold]maxk-lab report tsp_sweep --format markdown[/bold]
    [bold]maxk-lab report tsp_sweep llm_bandit --format html > both.html[/bold]   for a browser
    [bold]maxk-lab report tsp_sweep --out results/tsp_sweep/report[/bold]   with figures
    [bold]maxk-lab report tsp_sweep --where k=8,n=16 --sort variance[/bold]       a part of it
    [bold]maxk-lab report tsp_sweep --columns baseline,n,k,variance[/bold]
    """
    from maxk_lab.report.absent import changed_line
    from maxk_lab.report.formats.render import rendered_together
    from maxk_lab.report.report import Report
    from maxk_lab.report.summarise import summarise
    from maxk_lab.report.view.asked import asked_view
    from maxk_lab.report.write import write_together
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.find import find_run

    row = CATALOGUE.get(format)
    if row.for_programs and out is None and sys.stdout.isatty():
        asked = shlex.join(["maxk-lab", "report", *(runs or ()), "--format", format])
        raise LabError(f"a terminal cannot show {format}; keep it in a file: {asked} > {row.file}")
    if out == "":
        raise LabError("--out needs the name of a folder, and got an empty one")
    directories = [find_run(name, results) for name in runs or (None,)]
    plans = [make_plan(directory.spec()) for directory in directories]
    views = [asked_view(plan, where=where, sort=sort, columns=columns) for plan in plans]
    with kept_to_the_end():  # the process ends with the report
        summaries = [summarise(*pair) for pair in zip(directories, plans, strict=True)]
    undrawn: list[str] = []
    if out is not None:
        into = Path(out)
        for directory, summary, view in zip(directories, summaries, views, strict=True):
            folder = into if len(directories) == 1 else into / directory.name
            undrawn += _write(summary, folder, view)
        if len(directories) > 1:
            pairs = zip(summaries, views, strict=True)
            write_together([Report(summary, view=view) for summary, view in pairs], into)
            say(f"Wrote {out}/report.html: all of them side by side")
    else:
        look: dict[str, Any] = {
            "colour": sys.stdout.isatty(),
            "width": console().width if sys.stdout.isatty() else 100,
            # Nobody folds out what a terminal has printed.
            "full": full or format != "terminal",
        }
        reports = [
            Report(summary, view=view, **look)
            for summary, view in zip(summaries, views, strict=True)
        ]
        emit(rendered_together(reports, format))
        if format == "terminal":
            for directory, view in zip(directories, views, strict=True):
                words = ["maxk-lab", "report", str(directory.root)]
                if view.whole and not full:
                    say(f"All tables: {shlex.join([*words, '--full'])}")
                words += ["--out", str(directory.report_path)]
                say(f"As files, with figures: {shlex.join(words)}")
    for directory, summary in zip(directories, summaries, strict=True):
        if summary.changed:
            warn(f"{summary.header.name}: {changed_line(summary.changed)}")
        if summary.problems:
            warn(
                f"{len(summary.problems)} damaged records are not used; "
                f"{options.mending(directory)}"
            )
    if undrawn or not all(summary.sound for summary in summaries):
        raise typer.Exit(1)


def _write(summary: Summary, folder: Path, view: View) -> list[str]:
    """Write the files; print verdicts and failures, and say where the rest is.

    Returns a line for each figure that could not be drawn.
    """
    from maxk_lab.report.absent import failure_lines, standing_lines
    from maxk_lab.report.write import write_report

    undrawn: list[str] = []
    paths = write_report(summary, folder, view=view, failed=undrawn.append, left_out=warn)
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
    figures = sum(path.suffix == ".png" for path in paths)
    drawn = f"{figures} figure{'' if figures == 1 else 's'}"
    for line in undrawn:
        warn(
            f"{line}; this is a fault of maxk-lab, and the rest of the report is not touched by it"
        )
    say(f"Wrote {folder}/report.html for a browser, report.md, {drawn}; {len(paths)} files in all")
    return undrawn
