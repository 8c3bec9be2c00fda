"""The K that a step trains for: the study's own, or one on the way to it. Imports no torch."""

from __future__ import annotations

from typing import Protocol


class Schedule(Protocol):
    """How K comes to its value: `kind` is fixed, linear or step; `first` and `until` are read by the latter two."""

    @property
    def kind(self) -> str: ...

    @property
    def first(self) -> int: ...

    @property
    def until(self) -> int: ...


def scheduled_k(schedule: Schedule, k: int, step: int) -> int:
    """The K of step `step`, which counts from 0, on the way to `k`.

        fixed   k
        linear  first + (k − first) min(1, step / until), rounded to the nearest integer, halves to even ones
        step    first while step < until, k from then on

    Raises `ValueError` for an unknown kind.
    """
    if schedule.kind == "fixed":
        return k
    if schedule.kind == "linear":
        return round(schedule.first + (k - schedule.first) * min(1.0, step / schedule.until))
    if schedule.kind == "step":
        return schedule.first if step < schedule.until else k
    raise ValueError(f"kind must be fixed, linear or step, got {schedule.kind!r}")


def scheduled_ks(schedule: Schedule, k: int, steps: int) -> tuple[int, ...]:
    """Every K that one of `steps` steps trains for, and `k` itself; ascending."""
    # Nothing changes from `until` on.
    return tuple(
        sorted({k, *(scheduled_k(schedule, k, step) for step in range(min(steps, schedule.until)))})
    )
