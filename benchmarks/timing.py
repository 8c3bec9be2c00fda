"""Timing of calls side by side, for the benchmarks of single functions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


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
