"""The seconds that a process was awake, and what it saw of another one in that time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class AwakeClock:
    """Seconds by `clock` in which it was asked every now and then.

    What passes between two questions counts as `most` seconds at the most. A process that was
    stopped, perhaps with its whole machine, thus learns nothing of others from the time it missed,
    nor from a clock that jumps.
    """

    def __init__(self, clock: Callable[[], float], most: float) -> None:
        self._clock, self._most = clock, most
        self._last, self._sum = clock(), 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """Return the seconds since it was made."""
        with self._lock:
            now = self._clock()
            self._sum += min(max(now - self._last, 0.0), self._most)
            self._last = now
            return self._sum


class Silence:
    """How long each of some processes has shown no sign of life, since it was first looked at."""

    def __init__(self, clock: AwakeClock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[bytes, float]] = {}
        self._beating: set[str] = set()

    def of(self, one: str, sign: bytes) -> float:
        """Return for how many seconds the sign of one has been what it is now."""
        now = self._clock()
        before = self._seen.get(one)
        if before is not None and before[0] == sign:
            return now - before[1]
        if before is not None:
            self._beating.add(one)
        self._seen[one] = (sign, now)
        return 0.0

    def has_beaten(self, one: str) -> bool:
        """Return whether its sign was seen to change."""
        return one in self._beating
