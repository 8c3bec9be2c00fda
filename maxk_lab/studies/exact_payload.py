"""What W&B is told about the studies that are exact: objectives along a parameter, and weights of given rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxk_lab.report.naming import row_path
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

OPTIMUM = ("parameter", "optimum", "optimum_value")
OBJECTIVE_COLUMNS = ("cell", "seed", "estimator", "k", "status", *OPTIMUM)
CURVE_COLUMNS = ("cell", "seed", "estimator", "k", "parameter", "point", "value")
NUMBERS = ("zero_share", "weight_sum", "weight_min", "weight_std")
WEIGHTS_AXES = ("estimator", "baseline", "n", "k")
WEIGHTS_COLUMNS = ("cell", "seed", *WEIGHTS_AXES, "status", *NUMBERS)
# Then one column per setting, as in the table of the cells.
SAMPLE_COLUMNS = ("cell", "seed", *WEIGHTS_AXES, "group", "reward", "weight")


def objective_metrics(record: Record) -> Metrics:
    """`objective/maxk/k8/optimum` and the value there; of a failed cell the status and no number."""
    path = row_path("objective", "", estimator=record.cell["estimator"], k=record.cell["k"])
    values = {name: finished(record).get(name) for name in ("optimum", "optimum_value")}
    return {f"{path}/status": record.status} | {
        f"{path}/{name}": value for name, value in values.items() if value is not None
    }


def objective_tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """The optimum of every cell, and its curve point by point."""
    cells, curves = [], []
    for record in records:
        metrics = finished(record)
        place = [record.cell[axis] for axis in ("id", "seed", "estimator", "k")]
        cells.append([*place, record.status, *(metrics.get(name) for name in OPTIMUM)])
        points = zip(metrics.get("points", ()), metrics.get("values", ()), strict=True)
        curves += [[*place, metrics["parameter"], point, value] for point, value in points]
    return {
        "cells": PayloadTable(OBJECTIVE_COLUMNS, cells),
        "curves": PayloadTable(CURVE_COLUMNS, curves),
    }


def weights_metrics(record: Record) -> Metrics:
    """`weights/maxk/centred/n16/k8/zero_share` and the like; of a failed cell the status and no number."""
    path = record_path(record, "weights")
    values = {name: finished(record).get(name) for name in NUMBERS}
    return {f"{path}/status": record.status} | {
        f"{path}/{name}": value for name, value in values.items() if value is not None
    }


def weights_tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """The numbers of every cell, and the weight of every sample."""
    settings = setting_names(records)
    cells, samples = [], []
    for record in records:
        metrics = finished(record)
        place = [record.cell[axis] for axis in ("id", "seed", *WEIGHTS_AXES)]
        varied = [setting_of(record).get(name) for name in settings]
        cells.append([*place, record.status, *(metrics.get(name) for name in NUMBERS), *varied])
        groups = zip(metrics.get("rewards", ()), metrics.get("weights", ()), strict=True)
        samples += [
            [*place, number, reward, weight, *varied]
            for number, (rewards, weights) in enumerate(groups)
            for reward, weight in zip(rewards, weights, strict=True)
        ]
    return {
        "cells": PayloadTable((*WEIGHTS_COLUMNS, *settings), cells),
        "samples": PayloadTable((*SAMPLE_COLUMNS, *settings), samples),
    }
