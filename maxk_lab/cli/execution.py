"""The execution of a plan from the command line, with a display and orderly interruption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from maxk_lab.cli.console import complain, refusal, say, warn
from maxk_lab.cli.program import INTERRUPTED
from maxk_lab.cli.progress import Display
from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.execute import Outcome, execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.tracking.live import Live


def execute_plan(
    plan: Plan,
    directory: RunDirectory,
    *,
    resume: str,
    live: Live | None = None,
    beside: Callable[[], Sequence[str]] = tuple,
    **settings: Any,
) -> Outcome:
    """Execute with a display.

    If interrupted, end with the command `resume` and exit code 130; where the system refuses what
    it needs, as on a full disk, with 1. `beside` returns lines on the jobs that go on all the same,
    if there are any. `live` is told every event, and what it has to say becomes a warning.
    """
    display = Display(plan)

    def on_event(name: str, payload: dict[str, Any]) -> None:
        display(name, payload)
        for note in live.event(name, payload) if live else ():
            warn(note)

    try:
        with _terminate_as_interrupt(), display:
            return execute(plan, directory, on_event=on_event, **settings)
    except KeyboardInterrupt:
        say(f"Interrupted; every finished cell is kept. Continue with:\n{resume}")
        if lines := beside():
            say("\n".join(["The jobs that were submitted wait and run on.", *lines]))
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
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
