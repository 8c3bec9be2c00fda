"""Checks of the numbers of a record against each other, as far as rounding lets them differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

# Sums of the same numbers in another order, on another machine, differ by less.
ROUNDING = 1e-6
Told = float | None


def slack_of(values: Sequence[Told]) -> float:
    """Return how far rounding may move a sum of such values."""
    return ROUNDING * max((abs(value) for value in values if value is not None), default=0.0)


def same(told: Told, found: Told, slack: float) -> bool:
    """Whether two numbers differ by rounding alone, or neither is there."""
    if told is None or found is None:
        return told is found
    return math.isclose(told, found, rel_tol=ROUNDING, abs_tol=slack)


def check_same(name: str, told: Told, found: Told, slack: float) -> None:
    """Raise `ValueError` where the rest of the record gives another number than it tells."""
    if not same(told, found, slack):
        raise ValueError(f"{name} is {told}, where the rest of it gives {found}")


def check_mean(name: str, told: Told, values: Sequence[Told]) -> None:
    """Raise `ValueError` where `told` is not the mean of the values that are defined."""
    known = [value for value in values if value is not None]
    mean = math.fsum(known) / len(known) if known else None
    check_same(name, told, mean, slack_of(known))


def check_rising(name: str, values: Sequence[Told]) -> None:
    """Raise `ValueError` where the values that are defined fall."""
    known, slack = [value for value in values if value is not None], slack_of(values)
    for before, after in pairwise(known):
        if after < before - slack:
            raise ValueError(f"{name} falls from {before} to {after}")


def check_ends(name: str, value: Told, low: Told, high: Told) -> None:
    """Raise `ValueError` where an interval does not hold its value."""
    slack = slack_of([value, low, high])
    known = value if value is not None else low
    if known is None:
        return
    below = low is not None and known < low - slack
    if below or (high is not None and known > high + slack):
        raise ValueError(f"{name} is {value}, which is not from {low} to {high}")
