"""Packing: the units of a sweep in jobs of a cluster, each long enough to be worth its start."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeVar

# What a job waits in the queue and takes to start is nothing beside so many seconds of work.
WORTH_A_START = 300.0
# The most jobs of a run where the site says nothing else.
MOST_JOBS = 1000
Packed = TypeVar("Packed")


def packs(
    units: Sequence[Packed],
    seconds: Sequence[float],
    most: int,
    *,
    at_once: int = 1,
    each: int | None = None,
) -> list[list[Packed]]:
    """Return units in at most `most` packs of about the same time, each in the given order.

    `seconds` is the time that each of them takes, as far as it is known. Where there are no more
    units than can run `at_once`, each is a pack; else a pack takes some minutes at least. `each`
    is the number of units of a pack, whatever they take; more where there were too many packs.
    """
    if len(units) != len(seconds):
        raise ValueError(f"{len(units)} units and {len(seconds)} times")
    count = len(units)
    if each is not None:
        wanted = -(-count // each)
    elif count > at_once:
        wanted = int(sum(seconds) // WORTH_A_START)
    else:
        wanted = count
    wanted = min(max(1, wanted), most, count)
    if each is not None and wanted:
        size = -(-count // wanted)
        return [list(units[at : at + size]) for at in range(0, count, size)]
    return _balanced(units, seconds, wanted)


def _balanced(units: Sequence[Packed], seconds: Sequence[float], count: int) -> list[list[Packed]]:
    """Return `count` packs: the longest unit first, each to the pack that has the least to do."""
    loads = [(0.0, 0, number) for number in range(count)]
    chosen: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(range(len(units)), key=lambda index: -seconds[index]):
        # Of those with the same load the one with the fewest units.
        load, size, number = loads[0]
        chosen[number].append(index)
        heapq.heapreplace(loads, (load + seconds[index], size + 1, number))
    return [[units[index] for index in sorted(pack)] for pack in sorted(chosen, key=min)]
