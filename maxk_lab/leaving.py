"""The wish of the supervisor that work stops where it can go on later."""

from __future__ import annotations

from collections.abc import Callable

# Anything that a user's function may raise: sys.exit() in it must not end the program. Ctrl-C does.
RAISED = (Exception, SystemExit, GeneratorExit)


class Leaving(BaseException):
    """The work stopped where it can go on later. `except Exception` does not catch it."""


_checks: list[Callable[[], bool]] = []


def leave_when(check: Callable[[], bool]) -> None:
    """Have `leaving` call `check`, in place of an earlier check of this process."""
    _checks[:] = [check]


def leaving() -> bool:
    """Return whether work should stop where it can go on later; who stops raises `Leaving`."""
    return any(check() for check in _checks)
