"""The objective study in a report: where each objective is largest along the parameter, and what it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Section, Sheet, exact
from maxk_lab.report.model import Summary
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.objective.rows import Curve, ObjectiveRow


def objective_section(summary: Summary) -> Section:
    """A sheet per environment and parameter; then notes on what has no optimum."""
    blocks: list[Block] = []
    for _, found in groupby(
        summary.objectives, key=lambda row: (row.key.environment, row.parameter)
    ):
        blocks.append(_sheet(tuple(found)))
    notes = objective_notes(summary.objectives)
    if notes:
        blocks.append(Bullets(f"Objectives without an optimum ({UNDEFINED})", tuple(notes)))
    return Section("objective", tuple(blocks), tuple(record(row) for row in summary.objectives))


def objective_notes(rows: Sequence[ObjectiveRow]) -> list[str]:
    """One line per row that has no optimum, with the reason."""
    notes = [f"{row.key.path}: {_incomplete(row)}" for row in rows if not row.complete]
    for row in rows:
        notes += [
            f"{row.key.path}: {reason}"
            for reason in dict.fromkeys(c.reason for c in row.distinct)
            if reason
        ]
    return notes


def record(row: ObjectiveRow) -> dict[str, Any]:
    """The row as a mapping of every value; a number is None where seeds differ, `curves` has one for each of them."""
    flat: dict[str, Any] = {"environment": row.key.environment, "parameter": row.parameter}
    for column in (*_COLUMNS, _SEEDS):
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
    flat["undefined"] = {"optimum": reason} if (reason := _reason(row)) else {}
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
    # Which estimator is for it stands in the name of the objective.
    shown = tuple(column for column in _COLUMNS if column.heading != "estimator")
    columns = (*shown, *([_SEEDS] if any(len(row.cells) > 1 for row in rows) else []))
    return Sheet(
        f"Objectives along {row.parameter}: {row.key.environment}", columns, rows, tuple(caption)
    )


def _between(rows: Sequence[ObjectiveRow]) -> str:
    points = next((curve.points for row in rows for curve in row.distinct), ())
    return f" between {points[0]:g} and {points[-1]:g}" if points else ""


def _incomplete(row: ObjectiveRow) -> str:
    return f"incomplete: {len(row.finished)} of {len(row.cells)} seeds finished"


def _reason(row: ObjectiveRow) -> str:
    if not row.complete:
        return _incomplete(row)
    reasons = dict.fromkeys(curve.reason for curve in row.distinct if curve.reason)
    return "; ".join(reasons) or ("the seeds differ" if len(row.distinct) > 1 else "")


def _number(name: str, get: Callable[[Curve], float]) -> Column:
    def text(row: ObjectiveRow) -> str:
        values = [get(curve) for curve in row.distinct] if row.complete else []
        if not values or np.isnan(values).any():
            return UNDEFINED
        ends = list(dict.fromkeys((exact(min(values)), exact(max(values)))))
        return " to ".join(ends)

    def values(row: ObjectiveRow) -> Mapping[str, Any]:
        return {name: None if _reason(row) else get(row.distinct[0])}

    return Column(MEASURES.get(name).heading, text, values, numeric=True)


_COLUMNS = (
    Column(
        "objective", lambda row: row.key.objective, lambda row: {"objective": row.key.objective}
    ),
    Column(
        "estimator", lambda row: row.key.estimator, lambda row: {"estimator": row.key.estimator}
    ),
    Column("K", lambda row: str(row.key.k), lambda row: {"k": row.key.k}, numeric=True),
    _number("optimum", lambda curve: curve.optimum),
    _number("optimum_value", lambda curve: curve.best),
)
_SEEDS = Column(
    "seeds",
    lambda row: f"{len(row.finished)}/{len(row.cells)}",
    lambda row: {
        "seeds_finished": len(row.finished),
        "seeds": len(row.cells),
        "complete": row.complete,
    },
)
