"""The formats of a report: a function each, which is imported when it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean, load
from maxk_lab.errors import LabError, shown

if TYPE_CHECKING:
    from maxk_lab.reports.model import Summary
    from maxk_lab.reports.report import Report

# The folder of the figures, beside the report.
FOLDER = "figures"
# Format → its function from a `Report` to a text.
_FUNCTIONS = {
    "terminal": "maxk_lab.reports.formats.terminal:terminal",
    "markdown": "maxk_lab.reports.formats.markdown:markdown",
    "html": "maxk_lab.reports.formats.html.page:html",
    "csv": "maxk_lab.reports.formats.data:csv",
    "json": "maxk_lab.reports.formats.data:json",
    "latex": "maxk_lab.reports.formats.latex:latex",
}
# Format → its function from several reports to one text; texts of other formats are concatenated.
TOGETHER = {
    "html": "maxk_lab.reports.formats.html.page:together",
    "json": "maxk_lab.reports.formats.data:together",
}
FORMATS = tuple(_FUNCTIONS)
# Format → its file in the folder of a report.
FILES = {
    "markdown": "report.md",
    "html": "report.html",
    "csv": "table.csv",
    "json": "report.json",
    "latex": "table.tex",
}


def check_format(format: str) -> None:
    """Raise `LabError` unless `format` is one of `FORMATS`."""
    if format not in FORMATS:
        also = did_you_mean(format, FORMATS)
        raise LabError(f"unknown format {shown(format)}{also}; known: {', '.join(FORMATS)}")


def render(summary: Summary, format: str, **looks: Any) -> str:
    """`summary` in one of `FORMATS`; `looks` are further fields of `Report`.

    Raises `LabError` for any other format, and for a column of the view that there is not.
    """
    from maxk_lab.reports.report import Report

    return rendered(Report(summary, **looks), format)


def rendered(report: Report, format: str) -> str:
    """The report in one of `FORMATS`. Raises `LabError` for any other."""
    check_format(format)
    return str(load(_FUNCTIONS[format])(report))


def rendered_together(reports: Sequence[Report], format: str) -> str:
    """Several reports in one of `FORMATS`. Raises `LabError` for any other."""
    if len(reports) > 1 and format in TOGETHER:
        return str(load(TOGETHER[format])(reports))
    return "\n".join(rendered(report, format) for report in reports)
