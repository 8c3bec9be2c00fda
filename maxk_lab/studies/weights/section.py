"""The weights study in a report: how an estimator weighs some groups of rewards, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Section, Sheet, exact
from maxk_lab.report.key_columns import POINT, SEEDS
from maxk_lab.report.model import Summary
from maxk_lab.statistics.measures import MEASURES, MeasureRow, measures_of
from maxk_lab.studies.gradient.columns import setting_columns
from maxk_lab.studies.weights.rows import WeightsRow


def weights_section(summary: Summary) -> Section:
    """A sheet per environment; then notes on what is missing."""
    blocks: list[Block] = [
        _sheet(tuple(found))
        for _, found in groupby(summary.weights, key=lambda row: row.key.environment)
    ]
    notes = weights_notes(summary.weights)
    if notes:
        blocks.append(Bullets(f"Weights without a value ({UNDEFINED})", tuple(notes)))
    return Section("weights", tuple(blocks), tuple(record(row) for row in summary.weights))


def weights_notes(rows: Sequence[WeightsRow]) -> list[str]:
    """One line per row that lacks a seed."""
    return [f"{row.key.path}: {_incomplete(row)}" for row in rows if not row.complete]


def record(row: WeightsRow) -> dict[str, Any]:
    """The row as a mapping of every value; `groups` has the rewards and weights themselves."""
    flat: dict[str, Any] = {"environment": row.key.environment, **dict(row.key.setting)}
    for column in (*POINT, *_NUMBERS, SEEDS):
        flat |= column.values(row)
    flat["cells"] = dict(row.cells)
    flat["groups"] = [{"rewards": rewards, "weights": weights} for rewards, weights in row.groups]
    flat["undefined"] = {} if row.complete else {"all": _incomplete(row)}
    return flat


def pooled(row: WeightsRow, name: str) -> float:
    """A measure of the row over all seeds; NaN if a seed is missing."""
    found = [one.numbers[name] for one in row.by_seed.values()]
    if not row.complete:
        return float("nan")
    return float(min(found) if MEASURES.get(name).pooled == "least" else np.mean(found))


def _sheet(rows: tuple[WeightsRow, ...]) -> Sheet:
    groups = max(len(row.groups) for row in rows)
    caption = (
        f"The weights of {groups} groups of n rewards, drawn by the untrained policy: exact for these groups, no interval.",
        f"{'; '.join(f'{each.heading}: {each.meaning}' for each in measures_of('weights'))}.",
    )
    places = [(row.key.setting, row.key.n, row.key.k) for row in rows]
    rules = tuple(i for i in range(1, len(rows)) if places[i] != places[i - 1])
    columns = (*setting_columns([row.key.setting for row in rows]), *POINT, *_NUMBERS)
    if any(len(row.cells) > 1 for row in rows):
        columns = (*columns, SEEDS)
    return Sheet(
        f"Weights of given rewards: {rows[0].key.environment}", columns, rows, caption, rules
    )


def _incomplete(row: WeightsRow) -> str:
    return f"incomplete: {len(row.finished)} of {len(row.cells)} seeds finished"


def _number(measure: MeasureRow) -> Column:
    name = measure.name

    def values(row: WeightsRow) -> Mapping[str, Any]:
        return {name: pooled(row, name) if row.complete else None}

    return Column(measure.heading, lambda row: exact(pooled(row, name)), values, numeric=True)


_NUMBERS = tuple(map(_number, measures_of("weights")))
