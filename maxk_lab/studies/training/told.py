"""A value with its interval as text and as columns; some values have no interval, with a reason."""

from __future__ import annotations

import math

from maxk_lab.report.document import UNDEFINED, compact, number
from maxk_lab.statistics.intervals import Interval


def has_value(found: Interval) -> bool:
    """Whether there is a value, with or without an interval."""
    return not math.isnan(found.value)


def text(found: Interval) -> str:
    """`12.3 [11.0, 13.9]`; `12.3 [—]` where there is no interval, `—` where there is no value."""
    if found.known or not has_value(found):
        return compact(found)
    return f"{number(found.value)} [{UNDEFINED}]"


def columns(found: Interval, name: str) -> dict[str, float | None]:
    """Value and ends under `name`, `name_low`, `name_high`; None where there is none."""
    ends = {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return {end: None if math.isnan(value) else value for end, value in ends.items()}
