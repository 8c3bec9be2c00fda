"""The events of a job: a line of JSON each, read while the job, on another machine, writes them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

# The last bytes of what a job has printed that are looked at, and the most lines that are told.
_TAIL, _LINES = 2**12, 5


class Log:
    """The events of a job: the job tells them, and others read each of them once."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def tell(self, name: str, **payload: Any) -> None:
        """Tell one event. The log is for people: where it cannot be written, the run goes on."""
        event = {"time": round(time.time(), 3), "event": name, **payload}
        with suppress(OSError), self._path.open("ab", buffering=0) as file:
            file.write(json.dumps(event, default=str).encode() + b"\n")

    def new(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events since the last call; lines that are none are left out."""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._at)
            part = file.read()
            # One that is still being written is not whole.
            lines = part[: part.rfind(b"\n") + 1]
            self._at += len(lines)
            for line in lines.splitlines():
                with suppress(ValueError, TypeError, AttributeError, KeyError):
                    event = json.loads(line)
                    yield str(event.pop("event")), event


def last_words(path: Path | None) -> str:
    """Return the last lines of what a job has printed, in one line; empty where there are none."""
    if path is None:
        return ""
    try:
        text = path.read_bytes()[-_TAIL:].decode(errors="replace")
    except OSError:
        return ""
    lines = ["".join(filter(str.isprintable, line)).strip() for line in text.splitlines()]
    return "; ".join([line for line in lines if line][-_LINES:])
