"""The final values, evaluations and log of every cell of a training study, for a tracker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.fields import Numbers
from maxk_lab.statistics.seeds.over_seeds import floats
from maxk_lab.studies.training import record as content
from maxk_lab.studies.training.curves import Evaluations, Final
from maxk_lab.studies.training.ending.gap import gap
from maxk_lab.studies.training.ending.ways import sampled_at
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

_AXES = ("estimator", "baseline", "n", "k")
_PLACE = ("cell", "seed", *_AXES)
# In tables with one line per K, `at_k` is the K of the curve, `k` that of the objective.
_VALUE = ("at_k", "value", "low", "high")
# A column for each setting comes last; `log` has one per quantity logged before them, `final` one
# of the gap, in percent of the optimum, where any optimum is known.
_TABLES = {
    "cells": (*_PLACE, "status", "steps", "rollouts"),
    "final": (*_PLACE, *_VALUE),
    "evaluations": (*_PLACE, "step", "rollouts", *_VALUE),
    "log": (*_PLACE, "step", "rollouts"),
    "extras": (*_PLACE, "extra", "value", "low", "high", "gap"),
    "tempered": (*_PLACE, "temperature", *_VALUE, "tuning"),
    "quantiles": (*_PLACE, "quantile", "value", "low", "high"),
}
# Those that a study has only where its records do.
_SOMETIMES = ("extras", "tempered", "quantiles")


def metrics(record: Record) -> Metrics:
    """`training/maxk/centred/n16/k8/final/max@8` and the like, a setting after the study.

    A failed cell has its status only.
    """
    path, cell = record_path(record, "training"), finished(record, content.Metrics)
    if cell is None:
        return told(path, record, {})
    found = {f"final/max@{k}": value for k, value, *_ in _final_values(cell.final)}
    found |= {
        f"final/max@{k}_{sampled_at(float(t))}": value for t, k, value, *_ in _tempered_values(cell)
    }
    found |= {
        f"final/gap@{k}": behind for k, behind in zip(cell.final.ks, _gaps(cell), strict=True)
    }
    found |= {f"final/{name}": value for name, value, *_ in _quantiles(cell)}
    for name, value, *_, behind in _extras(cell):
        found |= {f"extras/{name}": value, f"extras/{name}_gap": behind}
    return told(path, record, found)


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """Cells, final values, evaluations and log; extras and quantiles where there are any."""
    cells = [finished(record, content.Metrics) for record in records]
    done = [cell for cell in cells if cell is not None]
    names, settings = _logged_names(done), setting_names(records)
    with_gaps = any(behind is not None for cell in done for behind in _gaps(cell))
    lines: dict[str, list[list[Any]]] = {name: [] for name in _TABLES}
    for record, cell in zip(records, cells, strict=True):
        place = [record.cell[axis] for axis in ("id", "seed", *_AXES)]
        varied = [setting_of(record).get(name) for name in settings]
        count = [None, None] if cell is None else [cell.steps, cell.rollouts]
        found: dict[str, Iterable[list[Any]]] = {"cells": [[record.status, *count]]}
        if cell is not None:
            gaps = [[behind] * with_gaps for behind in _gaps(cell)]
            found |= {
                "final": [
                    [*line, *behind]
                    for line, behind in zip(_final_values(cell.final), gaps, strict=True)
                ],
                "evaluations": _evaluated_values(cell.evaluations),
                "log": _logged_values(cell, names),
                "extras": _extras(cell),
                "tempered": _tempered_values(cell),
                "quantiles": _quantiles(cell),
            }
        for table, new in found.items():
            lines[table] += [[*place, *line, *varied] for line in new]
    more = {"log": names, "final": ["gap"] * with_gaps}
    return {
        name: PayloadTable((*columns, *more.get(name, ()), *settings), lines[name])
        for name, columns in _TABLES.items()
        if lines[name] or name not in _SOMETIMES
    }


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


def _evaluated_values(found: Evaluations) -> list[list[Any]]:
    """(step, rollouts, K, value, low, high) of every evaluation."""
    return [
        [step, rollouts, k, *mean]
        for i, (step, rollouts) in enumerate(zip(found.step, found.rollouts, strict=True))
        for k, mean in found.means(i).items()
    ]


def _logged_names(cells: Sequence[content.Metrics]) -> list[str]:
    """The quantities that any of the cells logged at its training steps."""
    return sorted({name for cell in cells for name in cell.log.series})


def _logged_values(cell: content.Metrics, names: Sequence[str]) -> list[list[Any]]:
    """(step, rollouts before it, a value for each name) of every training step that was kept."""
    series = cell.log.series
    return [
        [
            step,
            step * cell.rollouts // cell.steps,
            *(series[name][i] if name in series else None for name in names),
        ]
        for i, step in enumerate(cell.log.step)
    ]
