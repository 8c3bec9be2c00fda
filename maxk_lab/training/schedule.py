"""The K that a step trains for: the study's own, or one on the way to it. Imports no torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from maxk_lab.training.settings import KScheduleSettings


def scheduled_k(schedule: KScheduleSettings, k: int, step: int) -> int:
    """Return the K of step `step`, which counts from 0, on the way to `k`.

    fixed   k
    linear  first + (k − first) min(1, step / until), rounded to the nearest integer, halves
                to even ones
    step    first while step < until, k from then on
    """
    if schedule.kind == "fixed":
        return k
    if schedule.kind == "linear":
        return round(schedule.first + (k - schedule.first) * min(1.0, step / schedule.until))
    return schedule.first if step < schedule.until else k


def scheduled_ks(schedule: KScheduleSettings, k: int, steps: int) -> Iterator[int]:
    """Yield every K that one of `steps` steps trains for, and `k` itself; ascending.

    A step goes no further from `k` than the one before: where the K of one ends is searched for.
    """
    # Nothing changes from `until` on.
    way = range(min(steps, schedule.until))
    ascending = way if schedule.first <= k else way[::-1]

    def k_of(step: int) -> int:
        return scheduled_k(schedule, k, step)

    if schedule.first > k:
        yield k
    at = 0
    while at < len(ascending):
        found = k_of(ascending[at])
        if found != k:
            yield found
        at = bisect_right(ascending, found, lo=at, key=k_of)
    if schedule.first <= k:
        yield k
