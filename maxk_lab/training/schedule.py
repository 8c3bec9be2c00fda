"""The K that a step trains for: the study's own, or one on the way to it. Imports no torch."""

from __future__ import annotations

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


def scheduled_ks(schedule: KScheduleSettings, k: int, steps: int) -> tuple[int, ...]:
    """Return every K that one of `steps` steps trains for, and `k` itself; ascending."""
    # Nothing changes from `until` on.
    return tuple(
        sorted({k, *(scheduled_k(schedule, k, step) for step in range(min(steps, schedule.until)))})
    )
