"""The answer of a training study: the best row at each K, and where each beats its comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Sheet, compact
from maxk_lab.report.rows import grouped
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.columns import (
    difference_column,
    heading,
    method_columns,
    shown_ks,
    status_columns,
)
from maxk_lab.studies.training.row.comparison import are_compared, difference
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import by_path
from maxk_lab.studies.training.section.decoding import own_best_items

_LISTED = 5


def answers(
    rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...], level: float
) -> Iterator[Block]:
    """The best rows at the K of interest, then every row against the one it is compared with.

    `rows` are those of one environment, `where` its name.
    """
    for n, found in grouped(rows, lambda row: row.key.n).items():
        items = list(_best(found, level))
        if items:
            yield Bullets(f"Best after training, n = {n}: {where}", tuple(items))
        decoded = list(own_best_items(found, level))
        if decoded:
            title = f"Best after training, each decoded in its own best way, n = {n}: {where}"
            yield Bullets(title, tuple(decoded))
    if are_compared(rows):
        yield _against(rows, where, caption)


def _best(rows: Sequence[TrainingRow], level: float) -> Iterator[str]:
    """The row with the highest Max@K at each K of interest, and the rows that may be as good."""
    named = by_path(rows)
    told = [row for row in rows if row.curve]
    if len(told) < 2:
        return
    for k in shown_ks(told):
        known = [(value.value, row) for row in told if (value := row.final(k)) and value.known]
        if not known:
            continue
        best = max(known, key=lambda pair: pair[0])[1]
        alike = [
            named[row.key.path]
            for _, row in known
            if row is not best and not _clear(difference(best, row, k, level))
        ]
        gain = best.differences.get(k)
        words = [f"{heading(k)}: {named[best.key.path]}, {compact(best.curve[k - 1])}"]
        if gain is not None and gain.known:
            words.append(f"Minus {named[best.compared_with]}: {compact(gain)}")
        words.append(
            f"Not told apart from it: {_listed(alike)}" if alike else "Told apart from every other"
        )
        yield ". ".join(words)
    yield (
        f"Not told apart: the {level:.0%} interval of the paired difference to the best holds 0; "
        "not corrected for the choice of the best nor for the number of rows."
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return "; ".join(names[:_LISTED]) + (f"; and {more} more" if more > 0 else "")


def _clear(found: Interval) -> bool:
    """Whether an interval of a difference lies on one side of zero."""
    return found.known and (found.low > 0 or found.high < 0)


def _against(rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...]) -> Sheet:
    """The differences at the ends of the curve, and the K at which they are beyond doubt."""
    ks = shown_ks([row for row in rows if row.differences])
    ends = sorted({*ks[:1], *ks[-1:]})
    columns = (
        *method_columns(rows),
        *status_columns(),
        *(difference_column(k, f"difference, {heading(k)}") for k in ends),
        Column("better at K =", partial(_where, sign=1), lambda row: {}),
        Column("worse at K =", partial(_where, sign=-1), lambda row: {}),
    )
    doubt = (
        "Better, worse: at these of the K that are kept, the interval of the difference lies "
        "above, below 0."
    )
    return Sheet(f"{difference_title(rows)}, in short: {where}", columns, rows, (*caption, doubt))


def difference_title(rows: Sequence[TrainingRow]) -> str:
    """`Difference to POMO (reinforce group_mean)`: the rows that others are compared with."""
    named = by_path(rows)
    found = dict.fromkeys(named[row.compared_with] for row in rows if row.compared_with)
    return f"Difference to {' and '.join(found)}"


def _where(row: TrainingRow, sign: int) -> str:
    """The K at which the difference is of that sign beyond doubt."""
    if not any(found.known for found in row.differences.values()):
        return UNDEFINED
    ks = [
        str(k) for k, found in row.differences.items() if _clear(found) and found.value * sign > 0
    ]
    return ", ".join(ks) or "none"
