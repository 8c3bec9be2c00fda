"""Timing of calls side by side, and tables between two marks of a page."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def medians(
    functions: dict[str, Callable[[], object]], rounds: int, *, processor: bool = False
) -> dict[str, float]:
    """Return median seconds per call, in turns, so that a slow moment hits all alike.

    By the clock, or of the processor alone, which other processes disturb less.
    """
    now = time.process_time if processor else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 2):
        for name, function in functions.items():
            start = now()
            function()
            if turn >= 2:  # the first two fill caches
                times[name].append(now() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def put_between(page: str, begin: str, lines: Sequence[str], end: str) -> str:
    """Return the page with these lines between its two marks. Exits where it does not have them."""
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"the page needs one line {begin} and, below it, one line {end}")
    before, after = page.split(begin)[0], page.split(end)[1]
    return before + "\n".join([begin, "", *lines, "", end]) + after


def print_or_put(lines: Sequence[str], into: Path | None, name: str) -> None:
    """Print the lines, or put them into a page between `name: begin` and `name: end`."""
    if into is None:
        print(*lines, sep="\n")
    else:
        begin, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
        page = put_between(into.read_text(encoding="utf-8"), begin, lines, end)
        into.write_text(page, encoding="utf-8")
