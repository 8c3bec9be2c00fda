"""Requests of the driver to stop work at a checkpoint, from which it resumes later."""

from __future__ import annotations

from collections.abc import Callable

# Exceptions of a user's function: sys.exit() in it must not end the program, but Ctrl-C does.
RAISED = (Exception, SystemExit, GeneratorExit)


class Leaving(BaseException):
    """The work stopped at a checkpoint. `except Exception` does not catch it."""


_checks: list[Callable[[], bool]] = []


def leave_when(check: Callable[[], bool]) -> None:
    """Have `leaving` call `check`, replacing an earlier check of this process."""
    _checks[:] = [check]


def leaving() -> bool:
    """Return whether work should stop at a checkpoint; the caller then raises `Leaving`."""
    return any(check() for check in _checks)
