"""A cluster that this process is no part of: an actor in it is asked for all that is done there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.backends.ray.cluster import Heard, Needs, Node
from maxk_lab.sweeps.run.backends.ray.parcel import Parcel


class Distant:
    """A cluster through `ask(method, *given)`, which has a method of the cluster there called.

    That raises `RefusedError` where the cluster cannot be reached.
    """

    scratch = ""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def nodes(self) -> list[Node]:
        """Return the nodes that are up."""
        found: list[Node] = self._ask("nodes")
        return found

    def keep(self, sha256: str, data: bytes) -> None:
        """Take the content of a file into the store of the cluster."""
        self._ask("keep", sha256, data)

    def forget(self, hashes: Collection[str]) -> None:
        """Let these contents go."""
        self._ask("forget", list(hashes))

    def start(self, number: int, parcel: Parcel, needs: Needs, without: Collection[str]) -> None:
        """Have a unit measured on any node but those with these ids."""
        self._ask("start", number, parcel, needs, list(without))

    def poll(self, seconds: float) -> list[Heard]:
        """Wait at most so long for something to be told, and return it."""
        found: list[Heard] = self._ask("poll", seconds)
        return found

    def cancel(self, number: int) -> None:
        """End a task, of which nothing more is told."""
        self._ask("cancel", number)

    def close(self) -> None:
        """End every task."""
        with suppress(RefusedError):
            self._ask("close")
