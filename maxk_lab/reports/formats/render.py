"""The formats of a report: functions that are imported on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean, load
from maxk_lab.errors import LabError, shown

if TYPE_CHECKING:
    from maxk_lab.reports.report import Report

# The folder of the figures, beside the report.
FOLDER = "figures"
# Format → its function from a `Report` to a text.
_FUNCTIONS = {
    "terminal": "maxk_lab.reports.formats.terminal:terminal",
    "markdown": "maxk_lab.reports.formats.markdown:markdown",
    "html": "maxk_lab.reports.formats.html:html",
    "csv": "maxk_lab.reports.formats.data:csv",
    "json": "maxk_lab.reports.formats.data:json",
    "latex": "maxk_lab.reports.formats.latex:latex",
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


def rendered(report: Report, format: str, **options: Any) -> str:
    """Return the report in one of `FORMATS`; `options` are those of its function.

    Raises `LabError` for any other format.
    """
    from maxk_lab.reports.drawing import with_charts

    check_format(format)
    report = with_charts(report) if format == "html" else report
    return str(load(_FUNCTIONS[format])(report, **options))


def rendered_together(reports: Sequence[Report], format: str, **options: Any) -> str:
    """Return several reports in one of `FORMATS`, below each other; as JSON a list.

    Raises `LabError` for any other format, and for several reports as one page.
    """
    if format == "html" and len(reports) > 1:
        raise LabError("a page has one run: name one, or give --out DIR for a folder each")
    texts = [rendered(report, format, **options) for report in reports]
    return f"[{','.join(texts)}]" if format == "json" and len(texts) > 1 else "\n".join(texts)
