"""Times and sizes as people write them, such as `1 h 30 min` or `4GB`, read and written."""

from __future__ import annotations

import re

from maxk_lab.errors import shown

_TIMES = {"h": 3600.0, "min": 60.0, "s": 1.0}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?) ?h)? ?(?:(\d+(?:\.\d+)?) ?min)? ?(?:(\d+(?:\.\d+)?) ?s)?")
# Decimal and binary units; in either row the largest first.
_DECIMAL = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}
_BINARY = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
_SIZES = {name.lower(): size for name, size in {**_DECIMAL, **_BINARY, "B": 1}.items()}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?) ?([A-Za-z]{1,3})")


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


def bytes_of(text: str) -> int:
    """Return the bytes in a text such as `4GB` (4 · 10⁹) or `512 MiB`. Raises `ValueError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2].lower() not in _SIZES:
        raise ValueError(f"must be a size such as 4GB, 512MB or 8GiB, got {shown(text)}")
    return round(float(found[1]) * _SIZES[found[2].lower()])


def spelled_size(count: int) -> str:
    """Return a number of bytes as a size that a sweep file may have, e.g. `4 GB` or `1.5 GiB`.

    It is rounded where no unit has it in three digits behind the point.
    """
    for units, most in ((_DECIMAL, 1000), (_BINARY, 1024)):
        for name, size in units.items():
            if size <= count < most * size and count * 1000 % size == 0:
                return f"{count / size:.3f}".rstrip("0").rstrip(".") + f" {name}"
    for name, size in _DECIMAL.items():
        if count >= size:
            return f"{count / size:.3f} {name}"
    return f"{count} B"
