"""What W&B is told about a training study: final values, evaluations and the log of every cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.statistics.over_seeds import floats
from maxk_lab.studies.training.ending.measures import gap
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

TRAINING_AXES = ("estimator", "baseline", "n", "k")
TRAINING_COLUMNS = ("cell", "seed", *TRAINING_AXES, "status", "steps", "rollouts")
# Of the tables with one line per K: `at_k` is the K of the curve, `k` that of the objective trained for.
_VALUE = ("at_k", "value", "low", "high")
FINAL_COLUMNS = ("cell", "seed", *TRAINING_AXES, *_VALUE)
EVALUATION_COLUMNS = ("cell", "seed", *TRAINING_AXES, "step", "rollouts", *_VALUE)
# Then one column per metric of the training log.
LOG_COLUMNS = ("cell", "seed", *TRAINING_AXES, "step", "rollouts")


# Of the tables of a study whose records have them; `gap` is in percent of the optimum.
EXTRA_COLUMNS = ("cell", "seed", *TRAINING_AXES, "extra", "value", "low", "high", "gap")
QUANTILE_COLUMNS = ("cell", "seed", *TRAINING_AXES, "quantile", "value", "low", "high")


def metrics(record: Record) -> Metrics:
    """`training/maxk/centred/n16/k8/final/max@8` and the like, a setting after the study; of a failed cell the status only."""
    path = record_path(record, "training")
    found: dict[str, Any] = {
        f"{path}/final/max@{k}": value for k, value, *_ in _final_values(record)
    }
    found |= {
        f"{path}/final/gap@{k}": behind
        for k, behind in zip(_ks(record), _gaps(record), strict=True)
    }
    found |= {f"{path}/final/{name}": value for name, value, *_ in _quantiles(record)}
    for name, value, *_, behind in _extras(record):
        found |= {f"{path}/extras/{name}": value, f"{path}/extras/{name}_gap": behind}
    return {f"{path}/status": record.status} | {
        name: value for name, value in found.items() if value is not None
    }


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """Cells, final values, evaluations and log, with a column per setting; extras, quantiles and gaps where there are any."""
    names, settings = _logged_names(records), setting_names(records)
    with_gaps = any(gap is not None for record in records for gap in _gaps(record))
    lines: dict[str, list[list[Any]]] = {name: [] for name in _TABLES}
    for record in records:
        cell, metrics = record.cell, finished(record)
        place = [cell["id"], cell["seed"], *(cell[axis] for axis in TRAINING_AXES)]
        gaps = [[gap] * with_gaps for gap in _gaps(record)]
        found = {
            "cells": [[record.status, metrics.get("steps"), metrics.get("rollouts")]],
            "final": [[*line, *gap] for line, gap in zip(_final_values(record), gaps, strict=True)],
            "evaluations": _evaluated_values(metrics),
            "log": _logged_values(metrics, names),
            "extras": _extras(record),
            "quantiles": _quantiles(record),
        }
        varied = [setting_of(record).get(name) for name in settings]
        for table, new in found.items():
            lines[table] += [[*place, *line, *varied] for line in new]
    more = {"log": names, "final": ["gap"] * with_gaps}
    return {
        name: PayloadTable((*columns, *more.get(name, ()), *settings), lines[name])
        for name, columns in _TABLES.items()
        if lines[name] or name not in ("extras", "quantiles")
    }


_TABLES = {
    "cells": TRAINING_COLUMNS,
    "final": FINAL_COLUMNS,
    "evaluations": EVALUATION_COLUMNS,
    "log": LOG_COLUMNS,
    "extras": EXTRA_COLUMNS,
    "quantiles": QUANTILE_COLUMNS,
}


def _ks(record: Record) -> list[int]:
    return list(finished(record).get("final", {}).get("ks", ()))


def _gaps(record: Record) -> list[float | None]:
    """The mean optimality gap in percent at each K of the final values; None where no optimum is known."""
    final = finished(record).get("final", {})
    values = final.get("per_instance") or [None] * len(_ks(record))
    return [_gap(record, of_instances) for of_instances in values]


def _gap(record: Record, values: Sequence[float | None] | None) -> float | None:
    optima = finished(record).get("reference", {}).get("per_instance")
    if not optima or not values:
        return None
    found = float(gap(floats(values), floats(optima)).mean())
    return None if math.isnan(found) else found


def _extras(record: Record) -> list[list[Any]]:
    """(name, value, low, high, gap) of every other way of decoding."""
    found = finished(record).get("extras", {})
    return [
        [name, *_ends(extra), _gap(record, extra.get("per_instance"))]
        for name, extra in found.items()
    ]


def _quantiles(record: Record) -> list[list[Any]]:
    """(name, value, low, high) of every quantile of the samples."""
    return [[name, *_ends(found)] for name, found in finished(record).get("quantiles", {}).items()]


def _ends(found: Mapping[str, Any]) -> list[Any]:
    return [found.get(end) for end in ("value", "low", "high")]


def _final_values(record: Record) -> list[list[Any]]:
    """(K, value, low, high) at the end, for the K at which evaluations are kept."""
    final = finished(record).get("final")
    if final is None:
        return []
    return [[k, *(final[name][k - 1] for name in ("value", "low", "high"))] for k in final["ks"]]


def _evaluated_values(metrics: Mapping[str, Any]) -> list[list[Any]]:
    """(step, rollouts, K, value, low, high) of every evaluation."""
    found = metrics.get("evaluations")
    if found is None:
        return []
    return [
        [step, rollouts, k, *(found[name][i][j] for name in ("value", "low", "high"))]
        for i, (step, rollouts) in enumerate(zip(found["step"], found["rollouts"], strict=True))
        for j, k in enumerate(found["ks"])
    ]


def _logged_names(records: Sequence[Record]) -> list[str]:
    """What any of the records logged at its training steps."""
    logs = [finished(record).get("log", {}) for record in records]
    return sorted({name for log in logs for name in log} - {"step"})


def _logged_values(metrics: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    """(step, rollouts before it, a value for each of the names) of every training step that was kept."""
    log = metrics.get("log", {})
    return [
        [
            step,
            step * metrics["rollouts"] // metrics["steps"],
            *(log[name][i] if name in log else None for name in names),
        ]
        for i, step in enumerate(log.get("step", ()))
    ]
