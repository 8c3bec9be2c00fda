"""Events of a run: a JSON line each, appended by the workers, followed by their parent process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

OnEvent = Callable[[str, dict[str, Any]], None]


def append_event(path: Path, name: str, payload: Mapping[str, Any]) -> None:
    """Append one event by one write to a file opened for appending, so that lines never mix."""
    line = json.dumps({"time": round(time.time(), 3), "event": name, **payload}, default=str) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class Follower:
    """The events that are appended to a file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()
        self._position = path.stat().st_size
        self._rest = b""

    def new(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (name, payload) of each complete line since the last call that is an event."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = self._rest + file.read()
            self._position = file.tell()
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            try:
                payload = json.loads(line)
                name = payload.pop("event")
            except (ValueError, KeyError, AttributeError, TypeError):
                continue
            yield name, payload
