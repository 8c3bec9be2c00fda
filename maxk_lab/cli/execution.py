"""The execution of a plan from the command line, with a display and orderly interruption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from maxk_lab.cli.console import complain, refusal, say
from maxk_lab.cli.program import INTERRUPTED
from maxk_lab.cli.progress import Display
from maxk_lab.errors import LabError, RefusedError
from maxk_lab.sweeps.backends import BACKENDS
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.execute import Outcome, execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.tracking.live import Live


def jobs_that_go_on(plan: Plan, *, detach: bool) -> bool:
    """Return whether the backend has jobs that go on when this process ends.

    Raises `LabError` where they would have to and do not.
    """
    row = BACKENDS.get(plan.spec.execution.backend)
    if detach and not row.queue:
        able = ", ".join(row.name for row in BACKENDS if row.queue)
        raise LabError(
            f"--detach needs a backend whose jobs go on by themselves ({able}); what backend "
            f"{row.name} measures ends with this command"
        )
    return bool(row.queue)


def execute_plan(
    plan: Plan,
    directory: RunDirectory,
    *,
    resume: str,
    afresh: str = "",
    live: Live | None = None,
    beside: Callable[[], Sequence[str]] = tuple,
    **settings: Any,
) -> Outcome:
    """Execute with a display.

    If interrupted, end with the command `resume` and exit code 130; where the system refuses what
    it needs, as on a full disk, with 1. `afresh` is the command that begins all over again, of a
    run that measures what has a record: no command goes on with that. `beside` returns lines on the
    jobs that go on all the same, if there are any. `live` is told every event, and what it has to
    say becomes a note.
    """
    display = Display(plan)

    def on_event(name: str, payload: dict[str, Any]) -> None:
        display(name, payload)
        for note in live.event(name, payload) if live else ():
            display.note(note)

    try:
        with _terminate_as_interrupt(), display:
            return execute(plan, directory, on_event=on_event, **settings)
    except KeyboardInterrupt:
        _say_how_to_go_on(
            "Interrupted; every finished cell is kept. Continue with:", resume, afresh
        )
        if lines := beside():
            say("\n".join(["The jobs that were submitted wait and run on.", *lines]))
        raise typer.Exit(INTERRUPTED) from None
    except (RefusedError, OSError, MemoryError) as error:
        refused = error if isinstance(error, RefusedError) else refusal(error)
        if refused is None:
            raise
        complain(refused)
        words = "Make room, or mend what is in the way, then go on with:"
        _say_how_to_go_on(f"Every finished cell is kept. {words}", resume, afresh)
        raise typer.Exit(1) from None


def _say_how_to_go_on(words: str, resume: str, afresh: str) -> None:
    """Say these words and the command that goes on; of a run with `--force` what is true of it."""
    if afresh:
        say(
            "Stopped; what was measured anew is kept, and cells that were not reached keep the "
            f"records that they had. To measure everything again, from the beginning:\n{afresh}"
        )
        words = "To leave it at that, and measure only what has no record:"
    say(f"{words}\n{resume}")


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
