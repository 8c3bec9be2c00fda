"""The measures of every cell of a weights study, and the weight of every sample, for a tracker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.weights import record as content
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

_TRACKED = tuple(row.name for row in measures_of("weights") if row.tracked)
_AXES = ("estimator", "baseline", "n", "k")
# Then one column per setting.
COLUMNS = ("cell", "seed", *_AXES, "status", *_TRACKED)
SAMPLE_COLUMNS = ("cell", "seed", *_AXES, "group", "reward", "weight")


def summary(records: Sequence[Record]) -> Metrics:
    """`weights/maxk/centred/n16/k8/zero_share` and the like; a failed cell has its status only."""
    numbers: Metrics = {}
    for record in records:
        found = finished(record, content.Metrics)
        points = found.points if found else {}
        values = {name: points.get(name) for name in _TRACKED}
        numbers |= told(record_path(record, "weights"), record, values)
    return numbers


def tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    """The measures of every cell, and the weight of every sample."""
    settings = setting_names(records)
    cells, samples = [], []
    for record in records:
        found = finished(record, content.Metrics)
        points = found.points if found else {}
        place = [record.cell[axis] for axis in ("id", "seed", *_AXES)]
        varied = [setting_of(record).get(name) for name in settings]
        cells.append([*place, record.status, *(points.get(name) for name in _TRACKED), *varied])
        groups = zip(found.rewards, found.weights, strict=True) if found else ()
        samples += [
            [*place, number, reward, weight, *varied]
            for number, (rewards, weights) in enumerate(groups)
            for reward, weight in zip(rewards, weights, strict=True)
        ]
    return {
        "cells": PayloadTable((*COLUMNS, *settings), cells),
        "samples": PayloadTable((*SAMPLE_COLUMNS, *settings), samples),
    }
