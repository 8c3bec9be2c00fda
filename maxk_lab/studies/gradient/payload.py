"""The measures of every cell of a gradient study, for a tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.gradient import record as content
from maxk_lab.tracking.table import (
    Metrics,
    PayloadTable,
    finished,
    record_path,
    setting_names,
    setting_of,
    told,
)

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

_TRACKED = [row for row in measures_of("gradient") if row.tracked]
# The measures that every table has, and those of some studies only.
ALWAYS = tuple(row.name for row in _TRACKED if not row.of_units)
MORE = tuple(row.name for row in _TRACKED if row.of_units)
AXES = ("stage", "estimator", "baseline", "n", "k")
COLUMNS = ("cell", "seed", *AXES, "status", "against", *ALWAYS)


def metrics(record: Record) -> Metrics:
    """`stage0/maxk/centred/n16/k8/variance` and the like, a setting after the stage.

    A failed cell has its status only.
    """
    points = _points(record)
    path = record_path(record, f"stage{record.cell['stage']}")
    return told(path, record, {name: points.get(name) for name in (*ALWAYS, *MORE)})


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """One line per cell; with a column for each setting and further measure that any cell has."""
    settings = setting_names(records)
    found = [finished(record, content.Metrics) for record in records]
    more = [name for name in MORE if any(cell and name in cell.points for cell in found)]
    lines = []
    for record, cell in zip(records, found, strict=True):
        points = cell.points if cell else {}
        lines.append(
            [
                *(record.cell[axis] for axis in ("id", "seed", *AXES)),
                record.status,
                cell.against if cell else None,
                *(points.get(name) for name in ALWAYS),
                *(setting_of(record).get(name) for name in settings),
                *(points.get(name) for name in more),
            ]
        )
    return {"cells": PayloadTable((*COLUMNS, *settings, *more), lines)}


def _points(record: Record) -> Mapping[str, float | None]:
    cell = finished(record, content.Metrics)
    return cell.points if cell else {}
