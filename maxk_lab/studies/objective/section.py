"""The objective study in a report: the parameter at which each objective is largest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxk_lab.report.document import (
    UNDEFINED,
    Block,
    Bullets,
    Chapter,
    Column,
    Section,
    Sheet,
    exact,
)
from maxk_lab.report.key_columns import ESTIMATOR, SEEDS, K
from maxk_lab.report.model import Summary
from maxk_lab.report.rows import Rows, grouped
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.objective.answer import answer
from maxk_lab.studies.objective.rows import Curve, ObjectiveRow

# The most lines of the short table.
_LINES = 12
_MEANINGS = {
    "parameter": "the parameter of the policy along which the objective is computed",
    "objective": "what the estimator's gradient is of",
}


def chapter(found: Rows[ObjectiveRow], summary: Summary) -> Chapter:
    """A sheet per environment and parameter; then notes on rows that have no optimum."""
    places = grouped(found.rows, lambda row: (row.key.environment, row.parameter))
    blocks: list[Block] = [_sheet(tuple(rows)) for rows in places.values()]
    undefined = _undefined(found.rows)
    if undefined:
        blocks.append(Bullets(f"Objectives without an optimum ({UNDEFINED})", tuple(undefined)))
    section = Section(
        "objective", tuple(blocks), tuple(map(record, found.rows)), meanings=_MEANINGS
    )
    return Chapter(
        (section,),
        undefined=undefined,
        answer=answer(found.rows),
        short=tuple(_short(places.values())),
    )


def _short(places: Iterable[Sequence[ObjectiveRow]]) -> Iterator[Sheet]:
    """The sheet of each place; of a long one the first, the middle and the last K of each."""
    for rows in places:
        shown = list(rows)
        if len(shown) > _LINES:
            families = grouped(rows, lambda row: row.key.estimator).values()
            ends = [row for one in families for row in (one[0], one[len(one) // 2], one[-1])]
            shown = list({row.key: row for row in ends}.values())
        sheet = _sheet(tuple(shown[:_LINES]))
        yield replace(sheet, title=f"In short: {sheet.title}")


def _undefined(rows: Sequence[ObjectiveRow]) -> list[str]:
    """One line per row that has no optimum, with the reason."""
    notes = [f"{row.key.path}: {row.unfinished}" for row in rows if row.unfinished]
    for row in rows:
        reasons = dict.fromkeys(curve.reason for curve in row.distinct if curve.reason)
        notes += [f"{row.key.path}: {reason}" for reason in reasons]
    return notes


def record(row: ObjectiveRow) -> dict[str, Any]:
    """The row as a mapping of every value.

    A number is None where seeds differ; `curves` has one for each of them.
    """
    flat: dict[str, Any] = {"environment": row.key.environment, "parameter": row.parameter}
    for column in (*_COLUMNS, SEEDS):
        flat |= column.values(row)
    flat["cells"] = dict(row.cells)
    flat["curves"] = {
        str(seed): {
            "points": curve.points,
            "values": curve.values,
            "optimum": curve.optimum,
            "optimum_value": curve.best,
        }
        for seed, curve in row.curves.items()
    }
    flat["undefined"] = {"optimum": reason} if (reason := row.no_optimum) else {}
    return flat


def _sheet(rows: tuple[ObjectiveRow, ...]) -> Sheet:
    row = rows[0]
    caption = [
        "Exact, by quadrature or by enumeration of what the policy can do: there is no interval.",
        f"optimum: the {row.parameter} at which the objective is largest{_between(rows)}.",
    ]
    if any(len(row.distinct) > 1 for row in rows):
        caption.append(
            "a to b: the seeds have different environments, and their optima lie between these."
        )
    # The name of the objective says which estimator is for it.
    shown = tuple(column for column in _COLUMNS if column.heading != "estimator")
    columns = (*shown, *([SEEDS] if any(len(row.cells) > 1 for row in rows) else []))
    return Sheet(
        f"Objectives along {row.parameter}: {row.key.environment}", columns, rows, tuple(caption)
    )


def _between(rows: Sequence[ObjectiveRow]) -> str:
    points = next((curve.points for row in rows for curve in row.distinct), ())
    return f" between {points[0]:g} and {points[-1]:g}" if points else ""


def _measure(name: str, get: Callable[[Curve], float]) -> Column:
    def text(row: ObjectiveRow) -> str:
        values = [get(curve) for curve in row.distinct] if row.all_finished else []
        if not values or np.isnan(values).any():
            return UNDEFINED
        ends = list(dict.fromkeys((exact(min(values)), exact(max(values)))))
        return " to ".join(ends)

    def values(row: ObjectiveRow) -> Mapping[str, Any]:
        return {name: None if row.no_optimum else get(row.distinct[0])}

    return Column(MEASURES.get(name).heading, text, values, numeric=True)


_COLUMNS = (
    Column(
        "objective", lambda row: row.key.objective, lambda row: {"objective": row.key.objective}
    ),
    ESTIMATOR,
    K,
    _measure("optimum", lambda curve: curve.optimum),
    _measure("optimum_value", lambda curve: curve.best),
)
