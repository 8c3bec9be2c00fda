"""A report as blocks that all text formats print, and its numbers as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds import SAME as SAME_IN_ALL

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.reports.charts import Figure

UNDEFINED = "—"
# Printed beside a value without interval.
WITHOUT = "[—]"
# Printed below a table whose caption repeats lines of the table before.
SAME = "Otherwise as in the table above."
_LABEL = re.compile(r"([A-Z][a-z ]{,20}): ")


class Column(NamedTuple):
    """The heading of a column, and whether it holds numbers."""

    heading: str
    numeric: bool = False


@dataclass(frozen=True)
class Block:
    """The content below a title: lines, items, a table, pictures, or folded blocks.

    `labelled` lines may begin with a label, as in `Use: subloo`; see `label_of`. `breaks` are the
    indices of `rows` with a rule above; the `caption` is about all rows. Pictures lie in the folder
    of figures beside the report. `folded` blocks open on demand.
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
    texts: pd.DataFrame,
    numeric: Iterable[str] = (),
    caption: Iterable[str] = (),
    breaks: Sequence[object] = (),
) -> Block:
    """Return the table of a DataFrame of texts, whose columns are the headings.

    `numeric` headings are aligned to the right. A rule separates rows with different values of
    `breaks`, which has a value per row.
    """
    numbers = set(numeric)
    changes = (i for i, (before, after) in enumerate(pairwise(breaks), 1) if before != after)
    return Block(
        title,
        columns=tuple(Column(str(name), name in numbers) for name in texts.columns),
        rows=tuple(texts.itertuples(index=False, name=None)),
        caption=tuple(caption),
        breaks=tuple(changes) if len(set(breaks)) < len(breaks) else (),
    )


def label_of(line: str) -> tuple[str, str]:
    """Return the label of a line of the answer, empty if it has none, and the remaining text."""
    match = _LABEL.match(line)
    return (match[1], line[match.end() :]) if match else ("", line)


def with_captions(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks; a caption omits lines of the caption before."""
    before: tuple[str, ...] = ()
    for block in blocks:
        new = tuple(line for line in block.caption if line not in before)
        before = block.caption
        yield block if new == before else replace(block, caption=(*new, SAME))


def number(value: float) -> str:
    """Return three significant digits, trailing zeros kept; `—` if undefined."""
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:#.3g}".rstrip(".")


def exact(value: float) -> str:
    """Return four significant digits of a computed number; `—` if undefined."""
    return UNDEFINED if math.isnan(value) else f"{0.0 if abs(value) < 1e-12 else value:.4g}"


def marked(interval: Interval) -> str:
    """Return the interval, with † if it is about fixed instances instead of new instances."""
    return f"{compact(interval)} †" if interval.fallen_back else compact(interval)


def compact(interval: Interval) -> str:
    """Return `12.3 [11.0, 13.9]`; `—` without a value or an interval.

    A value that is equal in every seed is `12.3 [—]`.
    """
    if interval.reason == SAME_IN_ALL:
        return f"{number(interval.value)} {WITHOUT}"
    if not interval.defined:
        return UNDEFINED
    ends = [interval.value, interval.low, interval.high]
    # A value far below the ends of the interval is the rounding error of 0.
    least = 1e-12 * max((abs(end) for end in ends if math.isfinite(end)), default=0.0)
    value, low, high = (number(0.0 if abs(end) < least else end) for end in ends)
    return f"{value} [{low}, {high}]"
