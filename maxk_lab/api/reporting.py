"""The report of a run, to look at, to write and to compute with in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxk_lab.api.arguments import checked
from maxk_lab.errors import LabError, shown
from maxk_lab.execution.bundle import find_run
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.model import ClaimVerdict
from maxk_lab.reports.report import Report
from maxk_lab.reports.summarise import summarise
from maxk_lab.reports.view import asked_view
from maxk_lab.reports.write import figures, write_report
from maxk_lab.sweep_file.studies import on_request

AnyRun = str | os.PathLike[str] | RunDirectory


@dataclass(frozen=True, repr=False)
class RunReport(Report):
    """The report of a run: its tables as text in any format, the verdicts, files with figures.

    A notebook shows it as Markdown. `summary` has all that it says, as plain values.
    """

    def __repr__(self) -> str:
        verdicts = [claim.verdict for claim in self.summary.claims]
        claims = [f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts)]
        told = f"; claims: {', '.join(claims)}" if claims else ""
        return f"<Report of {self.summary.header.name}: {self.summary.counts}{told}>"

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.to("markdown")

    @property
    def text(self) -> str:
        """The tables as a terminal shows them."""
        return self.to("terminal")

    @property
    def verdicts(self) -> Mapping[str, ClaimVerdict]:
        """The verdict on every claim of the sweep, by its name."""
        return {claim.name: claim for claim in self.summary.claims}

    @property
    def ok(self) -> bool:
        """Whether all is sound: `maxk-lab report` would exit with 0."""
        return self.summary.sound

    def to(self, format: str) -> str:
        """Return the tables in a format: terminal, markdown, html, csv, json or latex.

        Raises `LabError` for an unknown one.
        """
        return rendered(self, format)

    @checked
    def chart(self, name: str) -> Any:
        """Return a chart as an Altair object, to show in a notebook and to change.

        `name` is that of its file, as `variance`; those on request are there, too. Raises
        `LabError` where the run has no such chart.
        """
        found = {one.name: one.chart for one in figures(self.summary, on_request())}
        if name not in found:
            raise LabError(f"no chart {shown(name)}; this run has {', '.join(found) or 'none'}")
        return found[name]

    @checked
    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every format and the figures to a folder, and return the files, figures last.

        Raises `RefusedError` where they cannot be written.
        """
        return write_report(self.summary, Path(folder), view=self.view)


@checked
def report(
    run: AnyRun | None = None,
    *,
    where: str | None = None,
    sort: str | None = None,
    columns: str | Sequence[str] | None = None,
    results: str | os.PathLike[str] = "results",
) -> RunReport:
    """Return the report of a run: tables, and a verdict on every claim.

    `run` is the name of a run under `results`, a folder, a bundle, or what `maxk_lab.run` has
    returned; the latest run if None. Of its rows those are shown that `where` selects, as in
    "k=8,baseline=centred", sorted by a column ("-variance": the largest first), with these
    `columns` of the CSV; claims are judged on the whole run. Raises `LabError` where there is no
    such run, and for a row or column that it does not have.
    """
    if not isinstance(run, RunDirectory):
        run = find_run(None if run is None else os.fspath(run), os.fspath(results))
    plan = make_plan(run.spec())
    names = columns if columns is None or isinstance(columns, str) else ",".join(columns)
    view = asked_view(plan, where=where, sort=sort, columns=names, dashes="")
    found = RunReport(summarise(run, plan), view=view)
    _ = found.sections  # a column that there is not is told at once
    return found
