"""The question that the intervals of a figure answer, in words for its caption."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.gradient.row.model import GradientRow


def about(rows: Sequence[GradientRow], measure: str) -> str:
    """`about instances like these`, or these where too few carry the mean; of mixed rows both."""
    return about_all(row.intervals[measure] for row in rows if measure in row.intervals)


def about_all(intervals: Iterable[Interval]) -> str:
    """The same of intervals, those of them that are known."""
    told = dict.fromkeys(found.question for found in intervals if found.known and found.question)
    if len(told) == 1:
        return f"about {next(iter(told))}"
    return "about instances like these, or where too few of these carry the mean about these alone"
