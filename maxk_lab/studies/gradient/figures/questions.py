"""The question that the intervals of a figure answer, in words for its caption."""

from __future__ import annotations

from collections.abc import Iterable

from maxk_lab.statistics.intervals import Interval


def about(intervals: Iterable[Interval]) -> str:
    """`about instances like these`, or these where too few carry the mean; of mixed ones both."""
    told = dict.fromkeys(found.question for found in intervals if found.known and found.question)
    if len(told) == 1:
        return f"about {next(iter(told))}"
    return "about instances like these, or where too few of these carry the mean about these alone"
