"""The charts of a report, drawn on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING

from maxk_lab.errors import first_line
from maxk_lab.reports.report import Report
from maxk_lab.sweep_file.studies import in_reading_order

if TYPE_CHECKING:
    from maxk_lab.reports.charts import Figure


def figures(report: Report, *, failed: Callable[[str], None] | None = None) -> Iterator[Figure]:
    """Yield the charts with data, each with a unique name.

    `failed` gets a line for each chart that fails; without `failed` the error is raised.
    """
    names: list[str] = []
    for kind in filter(lambda kind: kind.has("charts"), in_reading_order()):
        with catching(failed, f"the figures of the {kind.name} study"):
            charts = kind.load_module("charts").charts
            for figure in charts(report.studies[kind.name], report.origin):
                safe = re.sub(r"[^\w.-]", "-", figure.name)
                numbered = (f"{safe}-{number}" for number in count(2))
                names.append(next(name for name in chain([safe], numbered) if name not in names))
                yield replace(figure, name=names[-1])


def with_charts(report: Report) -> Report:
    """Return the report with its charts; a part of a report has none."""
    if report.selection or report.charts or report.undrawn:
        return report
    undrawn: list[str] = []
    charts = tuple(figures(report, failed=undrawn.append))
    return replace(report, charts=charts, undrawn=tuple(undrawn))


@contextmanager
def catching(failed: Callable[[str], None] | None, what: str) -> Iterator[None]:
    """Pass a line about an error in the block to `failed`; without `failed`, raise the error."""
    try:
        yield
    except Exception as error:
        # A full disk fails the whole report.
        if failed is None or isinstance(error, OSError):
            raise
        failed(f"{what} could not be drawn: {type(error).__name__}: {first_line(error)}")
