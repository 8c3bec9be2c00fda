"""Ctrl-C, SIGTERM and SIGHUP during a run: noted when they come, acted on between two steps."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Those that note signals now: signals are for the whole process.
_noting: list[Interruption] = []


def pause(seconds: float) -> None:
    """Sleep; raises `KeyboardInterrupt` where a signal has come that is acted on between steps."""
    time.sleep(seconds)
    if threading.current_thread() is threading.main_thread():
        for interruption in _noting:
            interruption.check()


class Interruption:
    """Notes the signals that end a run, so that none comes in the middle of something.

    An exception that a handler raises may come anywhere, also while a lock is held. In another
    thread than the main one no handler can be set, and signals do what they did before.
    """

    def __init__(self) -> None:
        self.noted = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # One that is ignored, as under nohup, stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
            _noting.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self in _noting:
            _noting.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise `KeyboardInterrupt` where a signal has come."""
        if self.noted:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted = True
