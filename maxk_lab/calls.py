"""Calls of a user's functions, and the wish to leave work: told to and asked of the supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

# Anything that a user's function may raise: sys.exit() in it must not end the program. Ctrl-C does.
RAISED = (Exception, SystemExit, GeneratorExit)


class Watcher(Protocol):
    """Whoever may end the process when a call takes too long: nothing inside of it can.

    A function that is stuck in C holds the interpreter, and no thread and no signal handler of
    Python runs there.
    """

    def begins(self, name: str) -> None:
        """Take note of a call that begins now."""

    def ends(self) -> None:
        """Take note that it has ended."""

    @property
    def leaving(self) -> bool:
        """Whether the work is to be left where it can go on later."""


class Leaving(BaseException):
    """The work was left as the watcher asked: no failure, so that nothing takes it for one."""


_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> None:
    """Tell `watcher`, in place of an earlier one, of every call of this process from now on."""
    _watchers[:] = [watcher]


@contextmanager
def called(name: str) -> Iterator[None]:
    """Tell the watcher, if there is one, that the function `name` is running in this context."""
    for watcher in _watchers:
        watcher.begins(name)
    try:
        yield
    finally:
        for watcher in _watchers:
            watcher.ends()


def leaving() -> bool:
    """Return whether the watcher asks to leave the work where it can go on later.

    Whoever does so raises `Leaving`.
    """
    return any(watcher.leaving for watcher in _watchers)
