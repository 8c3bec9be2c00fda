"""The curves of every cell of a training study, its final values and tables, for a tracker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.fields import Numbers
from maxk_lab.statistics.seeds import floats
from maxk_lab.studies.training import record as content
from maxk_lab.studies.training.pool import gap
from maxk_lab.studies.training.record import Final
from maxk_lab.studies.training.row import sampled_at
from maxk_lab.tracking.payload import ENDS, Curve, History, Metrics, PayloadTable, finished, merged

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

# One run per cell: its curves are those of the training.
ONE_RUN_PER = ("id",)
_AXES = ("estimator", "baseline", "n", "k")
_PLACE = ("cell", "seed", *_AXES)
# In tables with one line per K, `at_k` is the K of the curve, `k` that of the objective.
_VALUE = ("at_k", *ENDS)
# A column for each setting comes last; `final` has one of the gap, in percent of the optimum,
# where any optimum is known.
_TABLES = {
    "cells": (*_PLACE, "status", "steps", "rollouts"),
    "final": (*_PLACE, *_VALUE),
    "extras": (*_PLACE, "extra", *ENDS, "gap"),
    "tempered": (*_PLACE, "temperature", *_VALUE, "tuning"),
    "quantiles": (*_PLACE, "quantile", *ENDS),
}
# Those that a study has only where its records do.
_SOMETIMES = ("extras", "tempered", "quantiles")
_AXES_OF_CURVES = ("step", "rollouts", "seconds")


def summary(records: Sequence[Record]) -> Metrics:
    """`final/max@8` of the cell, with the ends of its interval, `final/max@8/low`, and the like.

    There are none of a failed cell.
    """
    (record,) = records
    cell = finished(record, content.Metrics)
    if cell is None:
        return {}
    found: dict[str, float | None] = {"steps": cell.steps, "rollouts": cell.rollouts}
    for k, *mean in _final_values(cell.final):
        found |= _with_ends(f"final/{_max_at(k)}", mean)
    # Of other temperatures the best of all samples; the rest is in a table.
    for t, k, *mean, _ in _tempered_values(cell):
        if k == len(cell.final.value):
            found |= _with_ends(f"final/{_max_at(k)}_{sampled_at(float(t))}", mean)
    for k, behind in zip(cell.final.ks, _gaps(cell), strict=True):
        found[f"final/gap@{k}"] = behind
    for name, *mean in _quantiles(cell):
        found |= _with_ends(f"final/{name}", mean)
    for name, *mean, behind in _extras(cell):
        found |= _with_ends(f"extras/{name}", mean) | {f"extras/{name}/gap": behind}
    return {name: value for name, value in found.items() if value is not None}


def history(records: Sequence[Record]) -> History:
    """The log of a training against its steps, and Max@K on held-out instances against rollouts.

    Max@K has the ends of its interval beside it, and the seconds of training.
    """
    (record,) = records
    cell = finished(record, content.Metrics)
    if cell is None:
        return History()
    logged = {f"train/{name}": values for name, values in cell.log.series.items()}
    parts: list[tuple[float, Mapping[str, float | None]]] = [
        (
            step,
            {"step": step, "rollouts": step * cell.rollouts // cell.steps}
            | {name: values[i] for name, values in logged.items()},
        )
        for i, step in enumerate(cell.log.step)
    ]
    found = cell.evaluations
    seconds = record.timings.get("evaluations_seconds", [None] * len(found.step))
    for i, place in enumerate(zip(found.step, found.rollouts, seconds, strict=True)):
        values: dict[str, float | None] = dict(zip(_AXES_OF_CURVES, place, strict=True))
        for k, mean in found.means(i).items():
            values |= _with_ends(f"eval/{_max_at(k)}", mean)
        parts.append((found.step[i], values))
    curves = {name: Curve(against="step") for name in logged}
    for k in found.ks:
        value, *ends = _with_ends(f"eval/{_max_at(k)}", (None, None, None))
        curves[value] = Curve(against="rollouts", summary="max,last")
        beside = Curve(against="rollouts", summary="none", hidden=True)
        curves |= dict.fromkeys(ends, beside)
    return History(_AXES_OF_CURVES, curves, merged(parts))


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """Cells and final values; extras, temperatures and quantiles where there are any."""
    cells = [finished(record, content.Metrics) for record in records]
    done = [cell for cell in cells if cell is not None]
    settings = list(dict.fromkeys(name for one in records for name in one.cell.get("setting", {})))
    with_gaps = any(behind is not None for cell in done for behind in _gaps(cell))
    lines: dict[str, list[list[Any]]] = {name: [] for name in _TABLES}
    for record, cell in zip(records, cells, strict=True):
        place = [record.cell[axis] for axis in ("id", "seed", *_AXES)]
        varied = [record.cell.get("setting", {}).get(name) for name in settings]
        count = [None, None] if cell is None else [cell.steps, cell.rollouts]
        found: dict[str, Iterable[list[Any]]] = {"cells": [[record.status, *count]]}
        if cell is not None:
            gaps = [[behind] * with_gaps for behind in _gaps(cell)]
            found |= {
                "final": [
                    [*line, *behind]
                    for line, behind in zip(_final_values(cell.final), gaps, strict=True)
                ],
                "extras": _extras(cell),
                "tempered": _tempered_values(cell),
                "quantiles": _quantiles(cell),
            }
        for table, new in found.items():
            lines[table] += [[*place, *line, *varied] for line in new]
    more = {"final": ["gap"] * with_gaps}
    return {
        name: PayloadTable((*columns, *more.get(name, ()), *settings), lines[name])
        for name, columns in _TABLES.items()
        if lines[name] or name not in _SOMETIMES
    }


def _max_at(k: int) -> str:
    return f"max@{k}"


def _with_ends(name: str, mean: Sequence[float | None]) -> dict[str, float | None]:
    """A mean under this name, and the ends of its interval under their own below it."""
    return dict(zip((name, *(f"{name}/{end}" for end in ENDS[1:])), mean, strict=True))


def _gaps(cell: content.Metrics) -> list[float | None]:
    """The mean optimality gap in percent at each K of the final values; None if not known."""
    return [_gap(cell, values) for values in cell.final.per_instance]


def _gap(cell: content.Metrics, values: Numbers) -> float | None:
    if not cell.optima.per_instance or not values:
        return None
    found = float(gap(floats(values), floats(cell.optima.per_instance)).mean())
    return None if math.isnan(found) else found


def _extras(cell: content.Metrics) -> list[list[Any]]:
    """(name, value, low, high, gap) of every other way of decoding."""
    return [
        [name, *extra.mean, _gap(cell, extra.per_instance)] for name, extra in cell.extras.items()
    ]


def _quantiles(cell: content.Metrics) -> list[list[Any]]:
    """(name, value, low, high) of every quantile of the samples."""
    return [[name, *ends.mean] for name, ends in cell.quantiles.items()]


def _final_values(final: Final) -> list[list[Any]]:
    """(K, value, low, high) at the end, for the K at which evaluations are kept."""
    means = final.means
    return [[k, *means[k - 1]] for k in final.ks]


def _tempered_values(cell: content.Metrics) -> list[list[Any]]:
    """(temperature, K, value, low, high, mean of the tuning instances) at other temperatures."""
    return [
        [temperature, *line, tuning[line[0] - 1] if tuning else None]
        for temperature, final in cell.tempered.items()
        for tuning in [cell.tuning.tempered.get(temperature)]
        for line in _final_values(final)
    ]
