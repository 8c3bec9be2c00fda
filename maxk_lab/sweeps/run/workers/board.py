"""The board of a worker: memory that it shares with its parent, where each tells the other."""

from __future__ import annotations

import time
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any

# The bytes of a name that are kept.
_LENGTH = 200


class Board:
    """The call of a user's function that is running now, and whether the worker is to leave.

    The worker writes the former, its name and since when, and the parent the latter; neither waits
    for the other. What is read in between is at worst the name of another call.
    """

    def __init__(self) -> None:
        # The clock is the same in all processes of a machine.
        self._since: Any = RawValue("d", 0.0)
        self._name: Any = RawArray("c", _LENGTH)
        self._leaving: Any = RawValue("b", 0)

    def begins(self, name: str) -> None:
        """Take note of a call that begins now."""
        self._name.value = name.encode(errors="replace")[: _LENGTH - 1].replace(b"\0", b"?")
        self._since.value = time.monotonic()

    def ends(self) -> None:
        """Take note that it has ended."""
        self._since.value = 0.0

    def leave(self) -> None:
        """Ask the worker to leave its task where it can go on later."""
        self._leaving.value = 1

    @property
    def leaving(self) -> bool:
        """Whether the worker is to leave its task."""
        return bool(self._leaving.value)

    @property
    def running(self) -> tuple[str, float] | None:
        """The name of the call that is running, and for how many seconds; None where none is."""
        since = self._since.value
        if not since:
            return None
        return self._name.value.decode(errors="replace"), time.monotonic() - since
