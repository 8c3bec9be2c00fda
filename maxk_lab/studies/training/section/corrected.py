"""Comparisons corrected for how many a list or a table makes, and for its choice of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maxk_lab.statistics.families import Family
from maxk_lab.studies.training.columns import shown_ks
from maxk_lab.studies.training.row.comparison import difference_p_value
from maxk_lab.studies.training.row.model import TrainingKey, TrainingRow
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
    named = by_path(rows)
    alike = [named[row.key.path] for row in beside(best, rows, k, alpha / ks)]
    more = f"; and {len(alike) - _LISTED} more" if len(alike) > _LISTED else ""
    listed = "; ".join(alike[:_LISTED]) + more
    return f"Not told apart from it: {listed}" if alike else "Told apart from every other"


def corrected_words(rows: int, ks: int, level: float, lists: int = 1) -> str:
    """The sentence on the family of a list of the best of so many rows at so many K.

    It is one of so many `lists` that share the level.
    """
    several = f" × {lists}" if lists > 1 else ""
    these = f"all {lists} such lists" if lists > 1 else "this list"
    return (
        "Told apart: by the paired difference some row is better, at a family-wise level of "
        f"{1 - level:.0%}: one-sided, Bonferroni over {rows - 1} × {ks}{several} comparisons, of a "
        f"row with every other at every line of {these}, which allows for the choice of the best. "
        "Intervals are of one value each. Values of several seeds are taken as normal: where one "
        "in ten of the best row is 8 standard deviations above its others, that row is ruled out "
        "in up to 13 % of studies."
    )


@dataclass(frozen=True)
class Told:
    """The differences of a study that are told from 0, corrected for so many `comparisons`.

    `signs` has by row and K the sign of each: 1 where the row is better than the one it is compared
    with, -1 where it is worse.
    """

    signs: Mapping[TrainingKey, Mapping[int, int]]
    comparisons: int
    alpha: float

    def sign(self, row: TrainingRow, k: int) -> int:
        """1 for better, -1 for worse, 0 where that is not told."""
        return self.signs.get(row.key, {}).get(k, 0)

    def at(self, row: TrainingRow, sign: int) -> list[int]:
        """The K at which the difference is told to be of this sign."""
        return [k for k, found in self.signs.get(row.key, {}).items() if found == sign]


def told_apart(rows: Sequence[TrainingRow], alpha: float) -> Told:
    """Tell these rows apart by Holm's correction over their differences.

    They are those of all environments of a study, at the K that it asks about: 1, those that it
    trains for, and all samples. A headline over all of these is then as sure as one of them, and
    the points between, which only draw a curve, take no power from it.
    """
    asked = set(shown_ks(rows))
    p_values = {
        (row.key, k): p_value
        for row in rows
        for k, p_value in row.p_values.items()
        if k in asked and not math.isnan(p_value)
    }
    adjusted = Family("against the reference", len(p_values), alpha, "holm").adjusted(p_values)
    signs = {
        row.key: {
            k: 1 if row.differences[k].value > 0 else -1
            for k in row.p_values
            if adjusted.get((row.key, k), 1.0) < alpha
        }
        for row in rows
    }
    return Told(signs, len(p_values), alpha)


def beside(
    best: TrainingRow, rows: Sequence[TrainingRow], k: int, share: float
) -> list[TrainingRow]:
    """The other rows that may be as good as the one that is best at k; see `beaten`."""
    worse = beaten(rows, k, share)
    return [row for row in rows if row.key != best.key and row not in worse]
