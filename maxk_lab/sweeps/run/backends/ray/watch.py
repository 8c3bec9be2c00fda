"""A watch on a cluster: what it answers, and that it has not answered for too long."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from maxk_lab.errors import RefusedError

Answer = TypeVar("Answer")

# Seconds between two questions.
_EVERY = 1.0
# Seconds without an answer after which a cluster is taken for lost. Ray ends this process without
# a word after 60; a head node that only begins anew is there again before.
_PATIENCE = 30.0
# Of the time between two looks at the watch no more counts: this process may have been stopped.
_LOOK = 1.0
# Seconds without an answer after which nothing is waited for any more.
_FRESH = 4.0
# Seconds in which a cluster that does not answer is left.
_FAREWELL = 3.0


class Watch(Generic[Answer]):
    """Asks the same again and again, on a thread of its own: to ask one that is lost blocks."""

    def __init__(self, name: str, ask: Callable[[], Answer]) -> None:
        self._name, self._ask = name, ask
        self._last = ask()
        self._answered = self._looked = time.monotonic()
        self._silent = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_EVERY):
            with suppress(Exception):  # whatever it raises is no answer
                self._last = self._ask()
                self._answered = time.monotonic()

    def answer(self) -> Answer:
        """Return the last answer. Raises `RefusedError` as `check` does."""
        self.check()
        return self._last

    def check(self) -> None:
        """Raise `RefusedError` where there was no answer for too long."""
        now, before = time.monotonic(), self._looked
        self._looked = now
        self._silent += min(now - before, _LOOK)
        if self._answered >= before:
            self._silent = 0.0
        if self._silent >= _PATIENCE:
            raise RefusedError(f"{self._name} no longer answers; finished cells are kept")

    @property
    def answers(self) -> bool:
        """Whether there was an answer just now."""
        return time.monotonic() - self._answered < _FRESH

    def close(self) -> None:
        """Ask no more."""
        self._over.set()
        if self.answers:
            self._thread.join(_FRESH)


def leave_lost(shutdown: Callable[[], object]) -> None:
    """Leave a cluster that does not answer, without waiting for it for long.

    Ray would, also at the end of this process, until it ends that hard.
    """
    leaving = threading.Thread(target=shutdown, daemon=True)
    leaving.start()
    leaving.join(_FAREWELL)
    if leaving.is_alive():
        atexit.unregister(shutdown)
        if sys.excepthook.__module__.startswith("ray."):
            # It would tell the cluster of an error before it shows that.
            sys.excepthook = sys.__excepthook__
