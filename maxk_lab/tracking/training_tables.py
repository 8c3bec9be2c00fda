"""What W&B is told about a training study: final values, evaluations and the log of every cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.tracking.table import Metrics, PayloadTable, finished

if TYPE_CHECKING:
    from maxk_lab.sweeps.records import Record

TRAINING_AXES = ("estimator", "baseline", "n", "k")
TRAINING_COLUMNS = ("cell", "seed", *TRAINING_AXES, "status", "steps", "rollouts")
# Of the tables with one line per K: `at_k` is the K of the curve, `k` that of the objective trained for.
_VALUE = ("at_k", "value", "low", "high")
FINAL_COLUMNS = ("cell", "seed", *TRAINING_AXES, *_VALUE)
EVALUATION_COLUMNS = ("cell", "seed", *TRAINING_AXES, "step", "rollouts", *_VALUE)
# Then one column per metric of the training log.
LOG_COLUMNS = ("cell", "seed", *TRAINING_AXES, "step", "rollouts")


def training_metrics(record: Record) -> Metrics:
    """`training/maxk/centred/n16/k8/final/max@8` and the like; of a failed cell the status and no number."""
    cell = record.cell
    path = f"training/{cell['estimator']}/{cell['baseline']}/n{cell['n']}/k{cell['k']}"
    found: Metrics = {f"{path}/status": record.status}
    for at_k, value, *_ in _final_values(record):
        if value is not None:
            found[f"{path}/final/max@{at_k}"] = value
    return found


def training_tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    cells, final, evaluations, log = [], [], [], []
    names = _logged_names(records)
    for record in records:
        cell, metrics = record.cell, finished(record)
        place = [cell["id"], cell["seed"], *(cell[axis] for axis in TRAINING_AXES)]
        cells.append([*place, record.status, metrics.get("steps"), metrics.get("rollouts")])
        final += [[*place, *line] for line in _final_values(record)]
        evaluations += [[*place, *line] for line in _evaluated_values(metrics)]
        log += [[*place, *line] for line in _logged_values(metrics, names)]
    return {
        "cells": PayloadTable(TRAINING_COLUMNS, cells),
        "final": PayloadTable(FINAL_COLUMNS, final),
        "evaluations": PayloadTable(EVALUATION_COLUMNS, evaluations),
        "log": PayloadTable((*LOG_COLUMNS, *names), log),
    }


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
