"""The optimum of every cell of an objective study, and its curve, for a tracker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxk_lab.report.naming import row_path
from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.objective import record as content
from maxk_lab.tracking.table import Metrics, PayloadTable, finished, told

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

_TRACKED = tuple(row.name for row in measures_of("objective") if row.tracked)
_AXES = ("cell", "seed", "estimator", "k")
COLUMNS = (*_AXES, "status", "parameter", *_TRACKED)
CURVE_COLUMNS = (*_AXES, "parameter", "point", "value")


def summary(records: Sequence[Record]) -> Metrics:
    """`objective/maxk/k8/optimum` and the value there; a failed cell has its status only."""
    numbers: Metrics = {}
    for record in records:
        path = row_path("objective", "", estimator=record.cell["estimator"], k=record.cell["k"])
        found = finished(record, content.Metrics)
        numbers |= told(path, record, {name: getattr(found, name, None) for name in _TRACKED})
    return numbers


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """The optimum of every cell, and its curve point by point."""
    cells, curves = [], []
    for record in records:
        found = finished(record, content.Metrics)
        place = [record.cell[axis] for axis in ("id", "seed", "estimator", "k")]
        numbers = [getattr(found, name, None) for name in ("parameter", *_TRACKED)]
        cells.append([*place, record.status, *numbers])
        if found is not None:
            points = zip(found.points, found.values, strict=True)
            curves += [[*place, found.parameter, point, value] for point, value in points]
    return {
        "cells": PayloadTable(COLUMNS, cells),
        "curves": PayloadTable(CURVE_COLUMNS, curves),
    }
