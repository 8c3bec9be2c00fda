"""Times and sizes as people write them, such as `1 h 30 min` or `4GB`, read and written."""

from __future__ import annotations

import re

from pydantic import ByteSize, TypeAdapter

from maxk_lab.errors import shown

_TIMES = {"h": 3600.0, "min": 60.0, "s": 1.0}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?) ?h)? ?(?:(\d+(?:\.\d+)?) ?min)? ?(?:(\d+(?:\.\d+)?) ?s)?")


def seconds(text: str) -> float:
    """Return the seconds in a text such as `2h`, `1 h 30 min` or `45s`. Raises `ValueError`."""
    found = _TIME.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError(f"must be a time such as 2h, 30min or 45s, got {shown(text)}")
    pairs = zip(found.groups(), _TIMES.values(), strict=True)
    return sum(float(number) * size for number, size in pairs if number is not None)


def spelled(seconds: float) -> str:
    """Return seconds as a time that a sweep file may have, e.g. `1 h 30 min` or `2.5 s`."""
    parts = []
    for name, size in _TIMES.items():
        count = seconds // size if name != "s" else round(seconds, 3)
        seconds -= count * size
        if count:
            parts.append(f"{count:g} {name}")
    return " ".join(parts)


_BYTES = TypeAdapter(ByteSize)


def spelled_size(count: int) -> str:
    """Return a number of bytes as the same size in a sweep file, e.g. `4.0GB` or `1.5GiB`."""
    words = (ByteSize(count).human_readable(decimal=decimal) for decimal in (True, False))
    return next((one for one in words if _BYTES.validate_python(one) == count), f"{count}B")
