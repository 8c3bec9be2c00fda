"""Events of a job, kept as a line of JSON each."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Teller:
    """Appends the events of a job to its log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, name: str, **payload: Any) -> None:
        """Tell one event. The log is for people: where it cannot be written, the run goes on."""
        with contextlib.suppress(OSError):
            _append(self._path, name, payload)


def _append(path: Path, name: str, payload: Mapping[str, Any]) -> None:
    """Append one event by one write, also where somebody has removed the log or its folder.

    What a full disk has cut short is given its end of line; nothing is cut off, for others may be
    appending.
    """
    line = json.dumps({"time": round(time.time(), 3), "event": name, **payload}, default=str) + "\n"
    # Not through a link to a file of somebody, nor into a pipe that nobody reads.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o644)
    try:
        state = os.fstat(descriptor)
        if stat.S_ISREG(state.st_mode):
            torn = state.st_size and os.pread(descriptor, 1, state.st_size - 1) != b"\n"
            os.write(descriptor, b"\n" * bool(torn) + line.encode())
    finally:
        os.close(descriptor)
