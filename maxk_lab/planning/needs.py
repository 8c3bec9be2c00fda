"""The memory and the time that units take, and what exceeds a machine."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.planning.cells import Unit

# Seconds per unit of work, by a small policy on one slow core.
SECONDS = 6e-5
# Seconds of the loop of `slowness` on that core.
LOOP_SECONDS = 1.85e-3
# Seconds that a unit and each of its cells take whatever they measure: they are handed to a worker,
# and have records written.
UNIT_SECONDS, CELL_SECONDS = 0.03, 0.007
# Files in which a container is told its limit, of both versions of control groups.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# Settings that a message advises to lower.
MOST_NAMES = 3


@dataclass(frozen=True)
class Need:
    """Bytes that a unit has in memory at once, and what for.

    `settings` are those that it grows with, by their names in a sweep file: each with the factor
    that it is for.
    """

    bytes: float
    what: str
    settings: Mapping[str, float]

    def __str__(self) -> str:
        return f"at least {size(self.bytes)} of memory for {self.what}"

    @property
    def advice(self) -> str:
        """The settings to lower, the worst of them first."""
        names = sorted(self.settings, key=lambda name: -self.settings[name])[:MOST_NAMES]
        return f"lower {' or '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"


@cache  # every unit of a plan asks
def memory_of_machine(limits: tuple[str, ...] = LIMITS) -> int | None:
    """Return the bytes of memory that there are, or that are allowed; None where nobody tells."""
    sizes = []
    for path in limits:
        with suppress(OSError, ValueError):  # not there, or "max"
            sizes.append(int(Path(path).read_text(encoding="ascii")))
    with suppress(AttributeError, OSError, ValueError):  # where the system does not tell
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(sizes, default=None)


@cache
def slowness() -> float:
    """Return how many times as long as where `SECONDS` was measured a loop takes here and now.

    It takes a few milliseconds. A machine that others work on, too, is slow.
    """
    times = []
    for _ in range(5):
        started = time.perf_counter()
        sum(number * number for number in range(50_000))
        times.append(time.perf_counter() - started)
    return median(times) / LOOP_SECONDS


def guessed_seconds(work: float, cells: int) -> float:
    """Return roughly the seconds of a unit of so much work and so many cells, on a core of here."""
    return slowness() * (SECONDS * work + UNIT_SECONDS + CELL_SECONDS * cells)


def largest_need(unit: Unit) -> Need | None:
    """Return the most that a unit has in memory at once, counted low; None where nobody knows."""
    return max(unit.memory(), key=lambda need: need.bytes, default=None)


def short_of_memory(units: Iterable[Unit]) -> str | None:
    """Return what the first unit needs that this machine has not, and what to lower; or None."""
    there = memory_of_machine() or math.inf
    for unit in units:
        need = largest_need(unit)
        if need is not None and need.bytes > there:
            return f"{unit.label} needs {need}, and this machine has {size(there)}: {need.advice}"
    return None


def size(count: float) -> str:
    """Return a number of bytes for people, e.g. `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
