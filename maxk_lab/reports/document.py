"""A report as blocks that every text format prints.

So is whatever else has a `title` and `blocks`, and for a terminal `colour` and `width`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds import SAME as SAME_IN_ALL

if TYPE_CHECKING:
    from maxk_lab.reports.charts import Figure

UNDEFINED = "—"
# Beside a value without an interval.
WITHOUT = "[—]"
# Below a table whose caption shares lines with the one before.
SAME = "The rest as below the table before."


class Column(NamedTuple):
    """The heading of a column, what makes the text of a row, and whether it holds numbers."""

    heading: str
    text: Callable[[Any], str]
    numeric: bool = False


@dataclass(frozen=True)
class Block:
    """The parts below a title: lines, items, a table, pictures, or blocks that are folded.

    Lines that are `labelled` may begin with a label, as in `Use: subloo`; see `label_of`. `breaks`
    are the numbers of the `rows` with a rule above, `caption` holds for all rows. Pictures lie in
    `FOLDER` beside the report. What is `folded` is for those who ask for it.
    """

    title: str = ""
    lines: tuple[str, ...] = ()
    labelled: bool = False
    items: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    caption: tuple[str, ...] = ()
    breaks: tuple[int, ...] = ()
    pictures: tuple[Figure, ...] = ()
    folded: tuple[Block, ...] = ()


def sheet(
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Any],
    caption: Iterable[str] = (),
    breaks: Iterable[int] = (),
) -> Block:
    """The table of rows whose texts the columns make."""
    return Block(
        title,
        columns=tuple(columns),
        rows=tuple(tuple(column.text(row) for column in columns) for row in rows),
        caption=tuple(caption),
        breaks=tuple(breaks),
    )


def label_of(line: str) -> tuple[str, str]:
    """The label of a line of an answer, empty where it has none, and the rest."""
    found = re.match(r"([A-Z][a-z ]{,20}): ", line)
    return (found[1], line[found.end() :]) if found else ("", line)


def breaks_between(places: Sequence[object]) -> tuple[int, ...]:
    """The numbers of the rows whose place is not that of the row before."""
    return tuple(i for i, (before, here) in enumerate(pairwise(places), 1) if here != before)


def with_captions(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, each table with the lines of its caption that the one before it does not have."""
    before: tuple[str, ...] = ()
    for block in blocks:
        new = tuple(line for line in block.caption if line not in before)
        before = block.caption
        yield block if new == before else replace(block, caption=(*new, SAME))


def number(value: float) -> str:
    """Three significant digits, trailing zeros kept; `—` for undefined."""
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:#.3g}".rstrip(".")


def exact(value: float) -> str:
    """Four significant digits of a number that was computed, not measured; `—` for undefined."""
    return UNDEFINED if math.isnan(value) else f"{0.0 if abs(value) < 1e-12 else value:.4g}"


def marked(found: Interval) -> str:
    """The interval; with † where it is about these instances for want of others like them."""
    return f"{compact(found)} †" if found.fallen_back else compact(found)


def compact(interval: Interval) -> str:
    """`12.3 [11.0, 13.9]`; `—` where there is no value or no interval.

    A value that every seed has is `12.3 [—]`: nothing tells how far that of another may be from it.
    """
    if interval.reason == SAME_IN_ALL:
        return f"{number(interval.value)} {WITHOUT}"
    if not interval.known:
        return UNDEFINED
    return f"{number(interval.value)} [{number(interval.low)}, {number(interval.high)}]"
