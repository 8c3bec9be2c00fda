"""The columns of a trained row, and the row as one mapping of every value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from maxk_lab.report.document import POINT, SEEDS, UNDEFINED, Column
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.studies.training import told
from maxk_lab.studies.training.ending.apart import MARK
from maxk_lab.studies.training.ending.values import measured
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import UNBIASED, biasing, derived, derived_words, methods

Item = TypeVar("Item")
# Columns of intervals that fit beside the column of methods.
BESIDE_METHODS = 4
_NOT_COMPARED = undefined(0.95, "compared with no other row")


def record(row: TrainingRow) -> dict[str, Any]:
    """The row as a mapping of every value; `evaluations` is a list of lines, one per step and K."""
    flat: dict[str, Any] = {"environment": row.key.environment, **dict(row.key.setting)}
    for column in KEY:
        flat |= column.values(row)
    flat |= {"steps": row.steps, "rollouts": row.rollouts}
    flat["reference"] = row.compared_with
    for k in row.ks:
        flat |= told.columns(row.curve[k - 1], f"max@{k}")
        flat |= told.columns(row.differences.get(k, _NOT_COMPARED), f"difference@{k}")
        won, lost = row.won.get(k, (None, None))
        p_value = row.p_values.get(k, math.nan)
        flat |= {f"won@{k}": won, f"lost@{k}": lost}
        flat[f"p@{k}"] = None if math.isnan(p_value) else p_value
    if row.measures is not None:
        flat |= {
            "derived": derived(row),
            "bent_by": ", ".join(biasing(row.settings)),
            "seeds_apart": ", ".join(sorted({str(each.seed) for each in row.apart})),
            **measured(row),
        }
    flat["cells"] = dict(row.cells)
    flat["evaluations"] = [
        {
            "step": e.step,
            "rollouts": e.rollouts,
            "seconds": e.seconds,
            "k": k,
            **told.columns(value, "value"),
        }
        for e in row.evaluations
        for k, value in e.values.items()
    ]
    flat["undefined"] = {"all": row.reason} if row.reason else {}
    return flat


def method_columns(rows: Sequence[TrainingRow]) -> tuple[Column, ...]:
    """The one column that says which of these rows it is; the axes would take half of a line."""
    named = dict(zip((row.key for row in rows), methods(rows), strict=True))
    return (Column("method", lambda row: named[row.key], lambda row: {}),)


def status_columns() -> tuple[Column, ...]:
    """The columns of what is derived of a row, and of how many of its seeds there are."""
    return KEY[-2:]


def side_by_side(columns: Sequence[Item], most: int = BESIDE_METHODS) -> list[list[Item]]:
    """The columns in lists of so many that fit into a hundred letters, as even as can be."""
    sheets = -(-len(columns) // most)
    chunks = np.array_split(np.arange(len(columns)), max(1, sheets))
    return [[columns[i] for i in chunk] for chunk in chunks if len(chunk)]


def shown_ks(rows: Sequence[TrainingRow]) -> list[int]:
    """The K of interest: 1, those that were trained for, and all samples of an evaluation."""
    wanted = {1, *(row.key.k for row in rows), *(len(row.curve) for row in rows)}
    return sorted(wanted & {k for row in rows for k in row.ks})


def three(ks: Sequence[int], rows: Sequence[TrainingRow]) -> list[int]:
    """The three of these K that say most: the mean, the largest trained for, and all samples."""
    return sorted({ks[0], max({row.key.k for row in rows} & set(ks), default=ks[-1]), ks[-1]})


def heading(k: int, rows: Sequence[TrainingRow]) -> str:
    """The heading of a column of values of these rows at this K."""
    return f"mean ({at(k, rows)})" if k == 1 else at(k, rows)


def at(k: int | str, rows: Sequence[TrainingRow]) -> str:
    """`Max@8`; `pass@8`, as the field says, where every reward of these rows is 0 or 1."""
    return f"{'pass' if rows and all(row.passes for row in rows) else 'Max'}@{k}"


def final_column(k: int, rows: Sequence[TrainingRow]) -> Column:
    """The column of the final Max@k of these rows, to read."""
    return interval_column(heading(k, rows), lambda row: row.final(k))


def difference_column(k: int, heading: str) -> Column:
    """The column of the difference at k, to read."""
    return interval_column(heading, lambda row: row.differences.get(k), rests_on_both)


def rests_on_both(row: TrainingRow) -> bool:
    """Whether a difference of the row rests on a seed apart, of either side."""
    return bool(row.apart) or row.compared_apart


def interval_column(
    heading: str,
    get: Callable[[TrainingRow], Interval | None],
    marked: Callable[[TrainingRow], bool] = lambda row: bool(row.apart),
) -> Column:
    """A column of values with their intervals, to read: `record` has the numbers."""

    def text(row: TrainingRow) -> str:
        found = get(row)
        if found is None or not told.has_value(found):
            return UNDEFINED
        return told.text(found) + MARK * marked(row)

    return Column(heading, text, lambda row: {}, numeric=True)


KEY = (
    *POINT,
    Column(
        "derived",
        derived_words,
        lambda row: {"derived_unbiased": derived(row) == UNBIASED},
    ),
    SEEDS,
)
