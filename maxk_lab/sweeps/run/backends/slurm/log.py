"""The log of a job's events, read while the job, on another machine, goes on writing it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maxk_lab.files import open_regular

# The bytes that are read at once.
_PART = 2**20
# The last bytes of what a job has printed that are looked at, and the most lines that are told.
_TAIL, _LINES = 2**12, 5


class Log:
    """The events of a job, each read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def new(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events since the last call; lines that are none are left out."""
        while lines := self._lines():
            for line in lines:
                try:
                    event = json.loads(line)
                    name = event.pop("event")
                except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
                    continue
                if isinstance(name, str):
                    yield name, event

    def _lines(self) -> list[bytes]:
        """Return some whole lines more; one that is still being written is not whole."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._at)
                part = file.read(_PART)
        except (OSError, ValueError):
            return []
        *lines, rest = part.split(b"\n")
        if not lines and len(rest) == _PART:  # no line of ours is as long
            lines, rest = [b""], b""
        self._at += len(part) - len(rest)
        return lines


def last_words(path: Path | None) -> str:
    """Return the last lines of what a job has printed, in one line; empty where there are none."""
    if path is None:
        return ""
    try:
        with open_regular(path) as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            text = file.read(_TAIL).decode(errors="replace")
    except (OSError, ValueError):
        return ""
    lines = ["".join(filter(str.isprintable, line)).strip() for line in text.splitlines()]
    return "; ".join([line for line in lines if line][-_LINES:])
