"""What W&B is told about an objective study: the optimum of every cell, and its curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxk_lab.report.naming import row_path
from maxk_lab.statistics.measures import measures_of
from maxk_lab.tracking.table import Metrics, PayloadTable, finished

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

_TRACKED = tuple(row.name for row in measures_of("objective") if row.tracked)
_AXES = ("cell", "seed", "estimator", "k")
COLUMNS = (*_AXES, "status", "parameter", *_TRACKED)
CURVE_COLUMNS = (*_AXES, "parameter", "point", "value")


def metrics(record: Record) -> Metrics:
    """`objective/maxk/k8/optimum` and the value there; of a failed cell only its status."""
    path = row_path("objective", "", estimator=record.cell["estimator"], k=record.cell["k"])
    values = {name: finished(record).get(name) for name in _TRACKED}
    return {f"{path}/status": record.status} | {
        f"{path}/{name}": value for name, value in values.items() if value is not None
    }


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """The optimum of every cell, and its curve point by point."""
    cells, curves = [], []
    for record in records:
        found = finished(record)
        place = [record.cell[axis] for axis in ("id", "seed", "estimator", "k")]
        numbers = [found.get(name) for name in ("parameter", *_TRACKED)]
        cells.append([*place, record.status, *numbers])
        points = zip(found.get("points", ()), found.get("values", ()), strict=True)
        curves += [[*place, found["parameter"], point, value] for point, value in points]
    return {
        "cells": PayloadTable(COLUMNS, cells),
        "curves": PayloadTable(CURVE_COLUMNS, curves),
    }
