"""The formats of a report: one row and one function each. Imports none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import Catalogue, Row, load

if TYPE_CHECKING:
    from maxk_lab.reports.model import Summary
    from maxk_lab.reports.report import Report


# The folder of the figures, beside the report.
FOLDER = "figures"


@dataclass(frozen=True, kw_only=True)
class FormatRow(Row):
    """A format. `implementation` takes what is told, such as a `Report`, and returns its text.

    `file` is the name under which a written report has it; None for what is only printed. What
    `together` names takes several reports and returns one text of them; without it they stand below
    each other. A text that is `for_programs` says nothing to who sees it in a terminal.
    """

    file: str | None = None
    together: str = ""
    for_programs: bool = False


CATALOGUE: Catalogue[FormatRow] = Catalogue(
    "format",
    [
        FormatRow(
            name="terminal",
            meaning="tables within a given width, in colour where there is any",
            implementation="maxk_lab.reports.formats.terminal:terminal",
        ),
        FormatRow(
            name="markdown",
            meaning="the whole report with its figures",
            implementation="maxk_lab.reports.formats.markdown:markdown",
            file="report.md",
        ),
        FormatRow(
            name="html",
            meaning="a page for a browser, with a table to sort and figures to look into",
            implementation="maxk_lab.reports.formats.html.page:html",
            file="report.html",
            together="maxk_lab.reports.formats.html.page:together",
            for_programs=True,
        ),
        FormatRow(
            name="csv",
            meaning="one line per row with every column",
            implementation="maxk_lab.reports.formats.data:csv",
            file="table.csv",
        ),
        FormatRow(
            name="json",
            meaning="every value, with the reason where there is none",
            implementation="maxk_lab.reports.formats.data:json",
            file="report.json",
            together="maxk_lab.reports.formats.data:together",
        ),
        FormatRow(
            name="latex",
            meaning="booktabs tables to input",
            implementation="maxk_lab.reports.formats.latex:latex",
            file="table.tex",
        ),
    ],
    "maxk_lab.formats",
)
FORMATS = CATALOGUE.names()


def render(summary: Summary, format: str, **looks: Any) -> str:
    """`summary` in one of `FORMATS`; `looks` are further fields of `Report`.

    Raises `LabError` for any other format, and for a column of the view that there is not.
    """
    from maxk_lab.reports.report import Report

    return rendered(Report(summary, **looks), format)


def rendered(report: Report, format: str) -> str:
    """The report in one of `FORMATS`. Raises `LabError` for any other."""
    return str(load(CATALOGUE.get(format).implementation)(report))


def rendered_together(reports: Sequence[Report], format: str) -> str:
    """Several reports in one of `FORMATS`. Raises `LabError` for any other."""
    row = CATALOGUE.get(format)
    if len(reports) > 1 and row.together:
        return str(load(row.together)(reports))
    return "\n".join(rendered(report, format) for report in reports)
