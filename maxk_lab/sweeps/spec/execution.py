"""The limits of a run: no part of what its cells mean, and of no influence on their numbers."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from maxk_lab.fields import Model

_UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?) ?h)? ?(?:(\d+(?:\.\d+)?) ?min)? ?(?:(\d+(?:\.\d+)?) ?s)?")


def _seconds(value: Any) -> Any:
    """Return the seconds in a text such as `2h`, `1 h 30 min` or `45s`; a number is seconds."""
    if isinstance(value, bool) or not isinstance(value, str):
        return value
    found = _TIME.fullmatch(value.strip())
    if found is None or not any(found.groups()):
        raise ValueError(f"must be a time such as 2h, 30min or 45s, got {value[:40]!r}")
    pairs = zip(found.groups(), _UNITS.values(), strict=True)
    return sum(float(number) * seconds for number, seconds in pairs if number is not None)


def spelled(seconds: float) -> str:
    """Return seconds as a time that a sweep file may have, e.g. `1 h 30 min` or `2.5 s`."""
    parts = []
    for name, size in _UNITS.items():
        count = seconds // size if name != "s" else round(seconds, 3)
        seconds -= count * size
        if count:
            parts.append(f"{count:g} {name}")
    return " ".join(parts)


# Limits of less make no sense: the parent looks ten times a second.
Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0.5, le=3e7, allow_inf_nan=False)]


class Execution(Model):
    """Limits that end a cell: seconds, or a text such as `2h`; None is no limit.

    `timeout` is for each cell; that of the first one of a unit has the work that all of them share.
    `reward_timeout` is for each call of a reward function of the user's own.
    """

    timeout: Seconds | None = None
    reward_timeout: Seconds | None = None
