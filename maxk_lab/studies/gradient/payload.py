"""The measures of every cell of a gradient study, for a tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.gradient import record as content
from maxk_lab.tracking.table import (
    Metrics,
    PayloadTable,
    finished,
    setting_names,
    setting_of,
)

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

_TRACKED = [row for row in measures_of("gradient") if row.tracked]
# The measures that every table has, and those of some studies only.
ALWAYS = tuple(row.name for row in _TRACKED if not row.of_units)
MORE = tuple(row.name for row in _TRACKED if row.of_units)
AXES = ("stage", "estimator", "baseline", "n", "k")
# The policy of a stage and seed, in each setting, is one run; its table has a line per cell.
ONE_RUN_PER = ("stage", "setting")
# The measure by which methods are compared whatever the scale of their gradients.
_BEST = next(r.name for r in _TRACKED if r.group == "variance" and r.better == "higher")
COLUMNS = ("cell", "seed", *AXES, "status", "against", *ALWAYS)


def summary(records: Sequence[Record]) -> Metrics:
    """The best method for each objective and n: `best/max@8/n16/method` and its `snr`.

    That is the one of the highest signal-to-noise ratio among those that are unbiased by proof and
    could be trained with.
    """
    found: dict[str, tuple[float, str]] = {}
    for record in records:
        value, objective = _points(record).get(_BEST), _objective(record)
        if value is None or objective is None:
            continue
        place = f"best/{objective}/n{record.cell['n']}"
        name = f"{record.cell['estimator']}/{record.cell['baseline']}"
        found[place] = max(found.get(place, (value, name)), (value, name))
    return {
        f"{place}/{key}": told
        for place, (value, name) in found.items()
        for key, told in (("method", name), (_BEST, value))
    }


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


def _objective(record: Record) -> str | None:
    """The objective of a record's method, such as `max@8`; None where it is not to be compared."""
    try:
        method = Method.of(record.cell)
        fair = method.is_unbiased and method.fit != "oracle"
        return method.objective.name if fair else None
    except LabError:  # it is not installed here
        return None


def _points(record: Record) -> Mapping[str, float | None]:
    cell = finished(record, content.Metrics)
    return cell.points if cell else {}
