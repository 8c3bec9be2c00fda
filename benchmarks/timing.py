"""Timing of calls side by side, for the benchmarks of single functions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def medians(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return median seconds per call, in turns, so that a slow moment hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 2):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn >= 2:  # the first two fill caches
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}
