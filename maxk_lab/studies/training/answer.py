"""What a reader of a training study asks first: which row is best at which K, and where each is better than its reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Sheet, compact
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.columns import (
    heading,
    interval_column,
    method_columns,
    shown_ks,
    status_columns,
)
from maxk_lab.studies.training.rows.comparison import difference
from maxk_lab.studies.training.rows.model import TrainingRow
from maxk_lab.studies.training.rows.names import methods

_LISTED = 5


def answers(
    rows: tuple[TrainingRow, ...],
    where: str,
    caption: tuple[str, ...],
    said: tuple[str, ...],
    level: float,
) -> Iterator[Block]:
    """The best rows at the K of interest, then every row against its reference; `said` is what the differences are.

    `rows` are those of one environment, `where` its name.
    """
    for n, found in groupby(rows, key=lambda row: row.key.n):
        items = list(_best(tuple(found), level))
        if items:
            yield Bullets(f"Best after training, n = {n}: {where}", tuple(items))
    if any(row.reference for row in rows):
        yield _against(rows, where, (*caption, *said))


def _best(rows: Sequence[TrainingRow], level: float) -> Iterator[str]:
    """The row with the highest Max@K at each K of interest, which others may be as good, and by how much it beats its reference."""
    named = dict(zip((row.key for row in rows), methods(rows), strict=True))
    by_path = {row.key.path: named[row.key] for row in rows}
    told = [row for row in rows if row.curve]
    if len(told) < 2:
        return
    for k in shown_ks(told):
        known = [(value.value, row) for row in told if (value := row.final(k)) and value.known]
        if not known:
            continue
        best = max(known, key=lambda pair: pair[0])[1]
        alike = [
            named[row.key]
            for _, row in known
            if row is not best and not _clear(difference(best, row, k, level))
        ]
        gain = best.differences.get(k)
        words = [f"{heading(k)}: {named[best.key]}, {compact(_final(best, k))}"]
        if gain is not None and gain.known:
            words.append(f"Minus {by_path[best.reference]}: {compact(gain)}")
        words.append(
            f"Not told apart from it: {_listed(alike)}" if alike else "Told apart from every other"
        )
        yield ". ".join(words)
    yield (
        f"Not told apart: the {level:.0%} interval of the paired difference to the best holds 0; not corrected for the choice of "
        "the best nor for the number of rows."
    )


def _final(row: TrainingRow, k: int) -> Interval:
    return row.curve[k - 1]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return "; ".join(names[:_LISTED]) + (f"; and {more} more" if more > 0 else "")


def _clear(found: Interval) -> bool:
    """Whether an interval of a difference lies on one side of zero."""
    return found.known and (found.low > 0 or found.high < 0)


def _against(rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...]) -> Sheet:
    """Each row minus its reference at the ends of the curve, and the K at which it is better or worse beyond doubt."""
    ks = shown_ks([row for row in rows if row.differences])
    ends = sorted({*ks[:1], *ks[-1:]})
    columns = (
        *method_columns(rows),
        *status_columns(),
        *(interval_column(f"difference, {heading(k)}", partial(_difference, k=k)) for k in ends),
        Column("better at K =", partial(_where, sign=1), lambda row: {}),
        Column("worse at K =", partial(_where, sign=-1), lambda row: {}),
    )
    doubt = "Better, worse: at these of the K that are kept, the interval of the difference lies above, below 0."
    return Sheet(f"{reference_words(rows)}, in short: {where}", columns, rows, (*caption, doubt))


def reference_words(rows: Sequence[TrainingRow]) -> str:
    """What the differences are to, by the names of the rows."""
    by_path = dict(zip((row.key.path for row in rows), methods(rows), strict=True))
    found = dict.fromkeys(by_path[row.reference] for row in rows if row.reference)
    return f"Difference to {' and '.join(found)}"


def _difference(row: TrainingRow, k: int) -> Interval | None:
    return row.differences.get(k)


def _where(row: TrainingRow, sign: int) -> str:
    """The K at which the difference is of that sign beyond doubt."""
    if not any(found.known for found in row.differences.values()):
        return UNDEFINED
    ks = [
        str(k) for k, found in row.differences.items() if _clear(found) and found.value * sign > 0
    ]
    return ", ".join(ks) or "none"
