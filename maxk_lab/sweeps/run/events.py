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


class Teller:
    """Passes on the events that workers append to the log, and appends those of this process."""

    def __init__(self, path: Path, on_event: OnEvent) -> None:
        self._path, self._on_event = path, on_event
        path.touch()
        self._position = path.stat().st_size
        self._rest = b""

    def __call__(self, name: str, **payload: Any) -> None:
        append_event(self._path, name, payload)
        self.pass_on()

    def pass_on(self) -> list[tuple[str, dict[str, Any]]]:
        """Hand the new events to `on_event`, and return them."""
        events = list(self._new())
        for name, payload in events:
            self._on_event(name, payload)
        return events

    def _new(self) -> Iterator[tuple[str, dict[str, Any]]]:
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
