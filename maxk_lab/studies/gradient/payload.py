"""What W&B is told about a gradient study: the measures of every cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.statistics.measures import measures_of
from maxk_lab.tracking.table import (
    Metrics,
    PayloadTable,
    finished,
    record_path,
    setting_names,
    setting_of,
)

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

_TRACKED = [row for row in measures_of("gradient") if row.tracked]
# The measures that every table has, and those of some studies only.
METRICS = tuple(row.name for row in _TRACKED if not row.of_units)
MORE = tuple(row.name for row in _TRACKED if row.of_units)
AXES = ("stage", "estimator", "baseline", "n", "k")
COLUMNS = ("cell", "seed", *AXES, "status", "against", *METRICS)


def metrics(record: Record) -> Metrics:
    """`stage0/maxk/centred/n16/k8/variance` and the like, a setting after the stage; of a failed cell the status only."""
    path = record_path(record, f"stage{record.cell['stage']}")
    found: Metrics = {f"{path}/status": record.status}
    values = {name: finished(record).get(name) for name in (*METRICS, *MORE)}
    return found | {f"{path}/{name}": value for name, value in values.items() if value is not None}


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """One line per cell; then a column for each setting and further measure that any of the records has."""
    settings = setting_names(records)
    more = [name for name in MORE if any(name in finished(record) for record in records)]
    lines = [
        [*_line(record), *(setting_of(record).get(name) for name in settings)] for record in records
    ]
    for line, record in zip(lines, records, strict=True):
        line += [finished(record).get(name) for name in more]
    return {"cells": PayloadTable((*COLUMNS, *settings, *more), lines)}


def _line(record: Record) -> list[Any]:
    cell, found = record.cell, finished(record)
    return [
        cell["id"],
        cell["seed"],
        *(cell[axis] for axis in AXES),
        record.status,
        found.get("against"),
        *(found.get(name) for name in METRICS),
    ]
