"""The report of a run, to look at, to write and to compute with in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from maxk_lab.api.arguments import checked
from maxk_lab.errors import LabError, shown
from maxk_lab.execution.archive import find_run
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.claims import ClaimVerdict
from maxk_lab.reports.drawing import figures
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import Report, read_report
from maxk_lab.reports.selection import part_of
from maxk_lab.reports.write import write_report

AnyRun = str | os.PathLike[str] | RunDirectory


@dataclass(frozen=True, repr=False)
class RunReport(Report):
    """The report of a run: its tables as text in any format, the verdicts, files with figures.

    A notebook shows it as Markdown. `tables` has its numbers as three DataFrames.
    """

    @classmethod
    def of(cls, report: Report) -> Self:
        """The report with the methods of this class."""
        return cls(**vars(report))

    def __repr__(self) -> str:
        verdicts = [claim.verdict for claim in self.claims]
        claims = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
        words = f"; claims: {', '.join(claims)}" if claims else ""
        return f"<Report of {self.origin.name}: {self.origin.progress}{words}>"

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.to("markdown")

    @property
    def text(self) -> str:
        """The report as `maxk-lab report --full` prints it."""
        return rendered(self, "terminal", full=True)

    @property
    def verdicts(self) -> Mapping[str, ClaimVerdict]:
        """The verdict on every claim of the sweep, by its name."""
        return {claim.name: claim for claim in self.claims}

    @property
    def ok(self) -> bool:
        """Whether `maxk-lab report` would exit with 0."""
        return self.sound

    def to(self, format: str) -> str:
        """Return the report in a format: terminal, markdown, html, csv, json or latex.

        Raises `LabError` for an unknown one.
        """
        return self.text if format == "terminal" else rendered(self, format)

    @checked
    def chart(self, name: str) -> Any:
        """Return a chart as an Altair object, to show in a notebook and to change.

        `name` is the name of its file, such as `variance`. Raises `LabError` if the run has no
        such chart.
        """
        charts = {figure.name: figure.chart for figure in figures(self)}
        if name not in charts:
            raise LabError(f"no chart {shown(name)}; this run has {', '.join(charts) or 'none'}")
        return charts[name]

    @checked
    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every format and the figures to a folder, and return the files, figures last.

        Raises `RefusedError` where they cannot be written.
        """
        return write_report(self, Path(folder))


@checked
def report(
    run: AnyRun | None = None,
    *,
    where: str | None = None,
    columns: str | Sequence[str] | None = None,
    results: str | os.PathLike[str] = "results",
) -> RunReport:
    """Return the report of a run: tables, and a verdict on every claim.

    `run` is the name of a run under `results`, a folder, a bundle, or what `maxk_lab.run` has
    returned; the latest run if None. `where` selects rows, as in "k=8,baseline=centred", and
    `columns` columns of the CSV; claims are judged on the whole run. Raises `LabError` where there
    is no such run, and for a row or column that it does not have.
    """
    if not isinstance(run, RunDirectory):
        run = find_run(None if run is None else os.fspath(run), os.fspath(results))
    plan = make_plan(run.spec())
    every = read_report(run, plan)
    return RunReport.of(part_of(every, plan, where=where, columns=columns, dashes=""))
