"""The memory and the time that a unit takes at least, and what exceeds this or any machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.cells import Unit

# No machine that a sweep runs on has more memory, and nobody waits longer for a unit.
MOST_BYTES = 2**40
MOST_SECONDS = 365 * 24 * 3600.0
# Seconds per unit of work, by a small policy on one slow core; no machine is so much faster.
SECONDS = 6e-5
FASTER = 10
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


def guessed_seconds(work: float, cells: int) -> float:
    """Return roughly the seconds of a unit of so much work and so many cells, on one slow core."""
    return SECONDS * work + UNIT_SECONDS + CELL_SECONDS * cells


def largest_need(unit: Unit) -> Need | None:
    """Return the most that a unit has in memory at once, counted low; None where nobody knows."""
    return max(unit.memory(), key=lambda need: need.bytes, default=None)


def check_memory(unit: Unit) -> None:
    """Raise `LabError` where a unit needs more memory than this machine has."""
    if (sentence := lacking_memory(unit)) is not None:
        raise LabError(f"{unit.label} {sentence}")


def lacking_memory(unit: Unit) -> str | None:
    """Return what a unit needs that this machine has not, and what to lower; or None."""
    need, there = largest_need(unit), memory_of_machine()
    if need is None or there is None or need.bytes <= there:
        return None
    return (
        f"needs at least {size(need.bytes)} of memory for {need.what}, and this "
        f"machine has {size(there)}: lower {listed(need.settings)}"
    )


def impossible(unit: Unit) -> tuple[str, str] | None:
    """Return the setting to lower, and why no machine can run a unit; None where one may."""
    need = largest_need(unit)
    if need is not None and need.bytes > MOST_BYTES:
        return first(need.settings), (
            f"too large for any machine: at least {size(need.bytes)} of memory for {need.what}; "
            f"lower {listed(need.settings)}"
        )
    seconds = sum(unit.work().values()) * SECONDS / FASTER
    if seconds > MOST_SECONDS:
        years = seconds / MOST_SECONDS
        settings = unit.lengths()
        return first(settings), (
            f"too long for any machine: at least {years:,.0f} years for {unit.label}; "
            f"lower {listed(settings)}"
        )
    return None


def first(settings: Mapping[str, float]) -> str:
    """Return the setting that makes a need the largest."""
    return max(settings, key=lambda name: settings[name])


def listed(settings: Mapping[str, float]) -> str:
    """Return the names of the settings that make a need the largest, the worst of them first."""
    names = sorted(settings, key=lambda name: -settings[name])[:MOST_NAMES]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def size(count: float) -> str:
    """Return a number of bytes for people, e.g. `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def short_of_memory(units: Iterable[Unit]) -> str | None:
    """Return what is to be told of the first unit that this machine has too little memory for."""
    for unit in units:
        if (sentence := lacking_memory(unit)) is not None:
            return f"{unit.label} {sentence}"
    return None
