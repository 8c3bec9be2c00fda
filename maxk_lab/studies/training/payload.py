"""The curves of every cell of a training study, its final values and tables, for a tracker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.fields import Numbers
from maxk_lab.statistics.seeds import Mean, floats
from maxk_lab.studies.training import record as content
from maxk_lab.studies.training.pool import gap
from maxk_lab.studies.training.row import sampled_at
from maxk_lab.tracking.payload import ENDS, Curve, History, Metrics, PayloadTable, finished, merged

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

# One run per cell: its curves are those of the training.
ONE_RUN_PER = ("id",)
_AXES = ("estimator", "baseline", "n", "k")
_AXES_OF_CURVES = ("step", "rollouts", "seconds")
_Line = dict[str, Any]


def summary(records: Sequence[Record]) -> Metrics:
    """`final/max@8` of the cell, with the ends of its interval, `final/max@8/low`, and the like.

    There are none of a failed cell.
    """
    (record,) = records
    cell = finished(record, content.Metrics)
    if cell is None:
        return {}
    lines = _lines(cell)
    found: dict[str, float | None] = {"steps": cell.steps, "rollouts": cell.rollouts}
    for line in lines["final"]:
        found |= _with_ends(f"final/max@{line['at_k']}", line)
        found[f"final/gap@{line['at_k']}"] = line["gap"]
    # Of other temperatures the best of all samples; the rest is in a table.
    for line in lines["tempered"]:
        if line["at_k"] == len(cell.final.value):
            way = sampled_at(float(line["temperature"]))
            found |= _with_ends(f"final/max@{line['at_k']}_{way}", line)
    for line in lines["quantiles"]:
        found |= _with_ends(f"final/{line['quantile']}", line)
    for line in lines["extras"]:
        name = f"extras/{line['extra']}"
        found |= _with_ends(name, line) | {f"{name}/gap": line["gap"]}
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
            values |= _with_ends(f"eval/max@{k}", dict(zip(ENDS, mean, strict=True)))
        parts.append((found.step[i], values))
    curves = {name: Curve(against="step") for name in logged}
    for k in found.ks:
        value, *ends = _with_ends(f"eval/max@{k}", dict.fromkeys(ENDS))
        curves[value] = Curve(against="rollouts", summary="max,last")
        beside = Curve(against="rollouts", summary="none", hidden=True)
        curves |= dict.fromkeys(ends, beside)
    return History(_AXES_OF_CURVES, curves, merged(parts))


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """Cells and final values; extras, temperatures and quantiles where there are any.

    In tables with one line per K, `at_k` is the K of the curve, `k` that of the objective. A column
    for each setting comes last; `final` has one of the gap where any optimum is known.
    """
    cells = [finished(record, content.Metrics) for record in records]
    settings = list(dict.fromkeys(key for r in records for key in r.cell.get("setting", {})))
    found: dict[str, list[_Line]] = {"cells": [], "final": []}
    for record, cell in zip(records, cells, strict=True):
        place = {"cell": record.cell["id"], "seed": record.cell["seed"]}
        place |= {axis: record.cell[axis] for axis in _AXES}
        varied = {name: record.cell.get("setting", {}).get(name) for name in settings}
        counts = {name: getattr(cell, name, None) for name in ("steps", "rollouts")}
        parts: dict[str, list[_Line]] = {"cells": [{"status": record.status, **counts}]}
        parts |= {} if cell is None else _lines(cell)
        for table, lines in parts.items():
            found.setdefault(table, []).extend({**place, **line, **varied} for line in lines)
    if all(line["gap"] is None for line in found["final"]):
        found["final"] = [{k: v for k, v in line.items() if k != "gap"} for line in found["final"]]
    empty = ["cell", "seed", *_AXES, "at_k", *ENDS, *settings]
    return {
        name: PayloadTable([*lines[0]] if lines else empty, [[*line.values()] for line in lines])
        for name, lines in found.items()
        if lines or name == "final"
    }


def _lines(cell: content.Metrics) -> dict[str, list[_Line]]:
    """The lines of each table of a cell: means with their ends, and gaps in percent."""

    def ends(mean: Mean) -> _Line:
        return dict(zip(ENDS, mean, strict=True))

    def curve(final: content.Final) -> list[_Line]:
        means = final.means
        return [{"at_k": k, **ends(means[k - 1])} for k in final.ks]

    gaps = [{"gap": _gap(cell, values)} for values in cell.final.per_instance]
    tuned = cell.tuning.tempered
    return {
        "final": [one | behind for one, behind in zip(curve(cell.final), gaps, strict=True)],
        "extras": [
            {"extra": name, **ends(extra.mean), "gap": _gap(cell, extra.per_instance)}
            for name, extra in cell.extras.items()
        ],
        "tempered": [
            {"temperature": t, **one, "tuning": tuned[t][one["at_k"] - 1] if t in tuned else None}
            for t, final in cell.tempered.items()
            for one in curve(final)
        ],
        "quantiles": [{"quantile": name, **ends(q.mean)} for name, q in cell.quantiles.items()],
    }


def _with_ends(name: str, line: Mapping[str, float | None]) -> dict[str, float | None]:
    """A mean under this name, and the ends of its interval under their own below it."""
    return {name: line["value"], f"{name}/low": line["low"], f"{name}/high": line["high"]}


def _gap(cell: content.Metrics, values: Numbers) -> float | None:
    """The mean optimality gap in percent; None if it is not known."""
    if not cell.optima.per_instance or not values:
        return None
    found = float(gap(floats(values), floats(cell.optima.per_instance)).mean())
    return None if math.isnan(found) else found
