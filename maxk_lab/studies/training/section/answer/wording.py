"""Words that the sentences of an answer share: lists of names, and of rows with differences."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.report.document import number
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.told import text

# More names than this are counted, not listed.
LISTED = 4


def joined(parts: Sequence[str]) -> str:
    """`a, b and c`; with semicolons where one of several has a comma in it."""
    if len(parts) <= 2:
        return " and ".join(parts)
    comma, last = ("; ", "; and ") if any("," in part for part in parts) else (", ", " and ")
    return comma.join(parts[:-1]) + last + parts[-1]


def names(place: Place, rows: Sequence[TrainingRow]) -> str:
    """The names of rows, the first ones where they are many."""
    listed = [place.names[row.key] for row in rows]
    if len(listed) <= LISTED + 1:
        return joined(listed)
    return joined([*listed[:LISTED], f"{len(listed) - LISTED} more"])


def plain(found: Interval) -> str:
    """A value with its interval in a sentence, which says in words where there is none."""
    return text(found) if found.known else f"{number(found.value)} (without an interval)"


def percent(found: Interval) -> str:
    """The same of a number of percent: `1.05 [0.80, 1.40] %`, `0.00 % (without an interval)`."""
    return f"{text(found)} %" if found.known else f"{number(found.value)} % (without an interval)"


def with_gains(place: Place, rows: Sequence[TrainingRow], k: int, most: int = LISTED) -> str:
    """The names of rows with their differences in brackets, the first ones where they are many."""
    listed = [f"{place.names[row.key]} (by {place.gain(row, k)})" for row in rows[:most]]
    more = len(rows) - len(listed)
    return joined([*listed, *([f"{more} more"] if more else [])])


def are_told(rows: Sequence[TrainingRow], *, of: int = 0) -> str:
    """`one method is told`, `3 of 16 methods are told`, `no method is told`."""
    if not rows:
        return "no method is told"
    if len(rows) == 1:
        return "one method is told"
    return f"{len(rows)}{f' of {of}' if of else ''} methods are told"
