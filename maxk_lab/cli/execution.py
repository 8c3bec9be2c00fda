"""The execution of a plan from the command line, with a display and orderly interruption."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from maxk_lab.cli.console import complain, say
from maxk_lab.cli.program import INTERRUPTED
from maxk_lab.cli.refusals import refusal
from maxk_lab.errors import RefusedError

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.execute import Outcome
    from maxk_lab.sweeps.run.records import RunDirectory


def execute_plan(plan: Plan, directory: RunDirectory, *, resume: str, **settings: Any) -> Outcome:
    """Execute with a display.

    If interrupted, end with the command `resume` and exit code 130; where the system refuses what
    it needs, as on a full disk, with 1.
    """
    from maxk_lab.cli.progress import Bar, Lines
    from maxk_lab.cli.tracker import Tracker
    from maxk_lab.sweeps.run.execute import execute

    display = (Bar if sys.stderr.isatty() else Lines)(Tracker(plan))
    try:
        with _terminate_as_interrupt(), display:
            return execute(plan, directory, on_event=display, **settings)
    except KeyboardInterrupt:
        say("Interrupted; every finished cell is kept. Continue with:")
        say(resume)
        raise typer.Exit(INTERRUPTED) from None
    except (RefusedError, OSError, MemoryError) as error:
        refused = error if isinstance(error, RefusedError) else refusal(error)
        if refused is None:
            raise
        complain(refused)
        say("Every finished cell is kept. Make room, or mend what is in the way, then go on with:")
        say(resume)
        raise typer.Exit(1) from None


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM, as schedulers send it, ends the run as orderly as Ctrl-C."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
