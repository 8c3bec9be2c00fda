"""Comparisons corrected for how many a list or a table makes, and for its choice of the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maxk_lab.statistics.bias import holm
from maxk_lab.studies.training.row.comparison import difference_p_value
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import by_path

_LISTED = 5


def beaten(rows: Sequence[TrainingRow], k: int, alpha: float, ks: int = 1) -> list[TrainingRow]:
    """The rows of which some other is told to be better at k; the best of all is none of them.

    For the truly best row to be beaten by chance, one of its R − 1 rivals must seem better than it
    is: so each comparison is one-sided at alpha / (R − 1), shared among as many `ks`, whatever row
    seems best (Gupta 1965, "On some multiple decision (selection and ranking) rules").
    """
    share = alpha / max(1, len(rows) - 1) / ks
    return [
        row
        for row in rows
        if any(_ahead(other, row, k) < share for other in rows if other is not row)
    ]


def _ahead(row: TrainingRow, other: TrainingRow, k: int) -> float:
    """The one-sided p-value of `row` being above `other`."""
    p_value = difference_p_value(row, other, k)
    if math.isnan(p_value):
        return 1.0
    mine, theirs = (each.curve[k - 1].value for each in (row, other))
    return p_value / 2 if mine > theirs else 1 - p_value / 2


def as_good(best: TrainingRow, rows: Sequence[TrainingRow], k: int, alpha: float, ks: int) -> str:
    """The rows that are not told apart from the one that is best at k."""
    named, worse = by_path(rows), beaten(rows, k, alpha, ks)
    alike = [named[row.key.path] for row in rows if row.key != best.key and row not in worse]
    more = f"; and {len(alike) - _LISTED} more" if len(alike) > _LISTED else ""
    listed = "; ".join(alike[:_LISTED]) + more
    return f"Not told apart from it: {listed}" if alike else "Told apart from every other"


def corrected_words(rows: int, ks: int, level: float) -> str:
    """The sentence on the family of a list of the best of so many rows at so many K."""
    return (
        "Told apart: by the paired difference some row is better, at a family-wise level of "
        f"{1 - level:.0%}: one-sided, Bonferroni over {rows - 1} × {ks} comparisons, of a row with "
        "every other at every line of this list, which allows for the choice of the best. "
        "Intervals are of one value each."
    )


def told_apart(rows: Sequence[TrainingRow], alpha: float) -> dict[str, dict[int, int]]:
    """The sign of the differences that are told from 0 (Holm over all), by path and K."""
    p_values = {
        (row.key.path, k): p_value
        for row in rows
        for k, p_value in row.p_values.items()
        if not math.isnan(p_value)
    }
    adjusted = holm(p_values)
    return {
        row.key.path: {
            k: 1 if row.differences[k].value > 0 else -1
            for k in row.p_values
            if adjusted.get((row.key.path, k), 1.0) < alpha
        }
        for row in rows
    }


def comparisons(rows: Sequence[TrainingRow]) -> int:
    """How many differences these rows have a test of."""
    return sum(not math.isnan(p_value) for row in rows for p_value in row.p_values.values())
