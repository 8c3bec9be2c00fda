"""The weights study in a report: the measures of the weights that an estimator gives to rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from maxk_lab.report.document import (
    UNDEFINED,
    Block,
    Bullets,
    Chapter,
    Column,
    Section,
    Sheet,
    breaks_between,
    exact,
)
from maxk_lab.report.key_columns import POINT, SEEDS, setting_columns
from maxk_lab.report.model import Summary
from maxk_lab.report.rows import Rows, grouped
from maxk_lab.statistics.measures import MeasureRow, measures_of
from maxk_lab.studies.weights.answer import answer, focus
from maxk_lab.studies.weights.rows import WeightsRow

# The most lines of the short table.
_LINES = 12


def chapter(found: Rows[WeightsRow], summary: Summary) -> Chapter:
    """A sheet per environment; then notes on rows that lack a seed."""
    places = grouped(found.rows, lambda row: row.key.environment)
    blocks: list[Block] = [_sheet(tuple(rows)) for rows in places.values()]
    undefined = [f"{row.key.path}: {row.unfinished}" for row in found.rows if row.unfinished]
    if undefined:
        blocks.append(Bullets(f"Weights without a value ({UNDEFINED})", tuple(undefined)))
    section = Section("weights", tuple(blocks), tuple(map(record, found.rows)))
    return Chapter(
        (section,),
        undefined=undefined,
        answer=answer(found.rows),
        short=tuple(_short(tuple(rows)) for rows in places.values()),
    )


def _short(rows: tuple[WeightsRow, ...]) -> Sheet:
    """The sheet of the largest n and K alone."""
    sheet = _sheet(tuple(focus(rows))[:_LINES])
    note = "The largest n, and the largest K at it."
    return replace(sheet, title=f"In short: {sheet.title}", caption=(note, *sheet.caption))


def record(row: WeightsRow) -> dict[str, Any]:
    """The row as a mapping of every value; `groups` has the rewards and weights themselves."""
    flat: dict[str, Any] = {"environment": row.key.environment, **dict(row.key.setting)}
    for column in (*POINT, *_MEASURES, SEEDS):
        flat |= column.values(row)
    flat["cells"] = dict(row.cells)
    flat["groups"] = [{"rewards": rewards, "weights": weights} for rewards, weights in row.groups]
    flat["undefined"] = {"all": row.unfinished} if row.unfinished else {}
    return flat


def _sheet(rows: tuple[WeightsRow, ...]) -> Sheet:
    groups = max(len(row.groups) for row in rows)
    caption = (
        f"The weights of {groups} groups of n rewards, drawn by the untrained policy: "
        "exact for these groups, no interval.",
        f"{'; '.join(f'{each.heading}: {each.meaning}' for each in measures_of('weights'))}.",
    )
    places = [(row.key.setting, row.key.n, row.key.k) for row in rows]
    columns = (*setting_columns([row.key.setting for row in rows]), *POINT, *_MEASURES)
    if any(len(row.cells) > 1 for row in rows):
        columns = (*columns, SEEDS)
    title = f"Weights of given rewards: {rows[0].key.environment}"
    return Sheet(title, columns, rows, caption, breaks_between(places))


def _measure(measure: MeasureRow) -> Column:
    name = measure.name

    def values(row: WeightsRow) -> Mapping[str, Any]:
        return {name: row.pooled(name) if row.all_finished else None}

    return Column(measure.heading, lambda row: exact(row.pooled(name)), values, numeric=True)


_MEASURES = tuple(map(_measure, measures_of("weights")))
