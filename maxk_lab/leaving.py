"""Checks whether the driver wants work to stop at a checkpoint, from which it resumes later."""

from __future__ import annotations

from collections.abc import Callable

# Anything that a user's function may raise: sys.exit() in it must not end the program. Ctrl-C does.
RAISED = (Exception, SystemExit, GeneratorExit)


class Leaving(BaseException):
    """The work stopped at a checkpoint. `except Exception` does not catch it."""


_checks: list[Callable[[], bool]] = []


def leave_when(check: Callable[[], bool]) -> None:
    """Have `leaving` call `check`, in place of an earlier check of this process."""
    _checks[:] = [check]


def leaving() -> bool:
    """Return whether work should stop at a checkpoint; then it raises `Leaving`."""
    return any(check() for check in _checks)
