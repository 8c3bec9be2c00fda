"""Timing of calls side by side, and of fresh processes of the command line."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
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


def of_verb(*arguments: str, runs: int = 5) -> float:
    """Return the processor seconds of a fresh `maxk-lab` with these arguments, the median."""
    command = [sys.executable, "-c", "from maxk_lab.cli import main; main()", *arguments]
    times = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times)
