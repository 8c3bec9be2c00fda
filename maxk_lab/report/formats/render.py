"""A summary as text in one of the formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxk_lab.catalogue import load
from maxk_lab.report.formats.catalogue import CATALOGUE
from maxk_lab.report.model import Summary
from maxk_lab.report.report import Report
from maxk_lab.report.view import WHOLE, View

if TYPE_CHECKING:
    from maxk_lab.report.charts import Figure

FORMATS = CATALOGUE.names()


def render(
    summary: Summary,
    format: str,
    *,
    colour: bool = False,
    width: int = 100,
    full: bool = True,
    pictures: Sequence[Figure] = (),
    view: View = WHOLE,
) -> str:
    """`summary` in one of `FORMATS`, told how to look; see `Report`.

    Raises `LabError` for any other format, and for a column of the view that there is not.
    """
    return rendered(Report(summary, colour, width, full, pictures, view=view), format)


def rendered(report: Report, format: str) -> str:
    """The report in one of `FORMATS`. Raises `LabError` for any other."""
    return str(load(CATALOGUE.get(format).implementation)(report))


def rendered_together(reports: Sequence[Report], format: str) -> str:
    """Several reports in one of `FORMATS`. Raises `LabError` for any other."""
    row = CATALOGUE.get(format)
    if len(reports) > 1 and row.together:
        return str(load(row.together)(reports))
    return "\n".join(rendered(report, format) for report in reports)
