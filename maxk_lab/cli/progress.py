"""The execution of a plan on the command line: progress on stderr, and orderly interruption.

A terminal gets a rich bar, other streams an occasional line.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

import typer

from maxk_lab.cli.console import complain, console, estimate, refusal, say, warn
from maxk_lab.cli.program import INTERRUPTED
from maxk_lab.errors import RefusedError
from maxk_lab.execution.run import Outcome, Run, execute
from maxk_lab.planning.plan import stale_line
from maxk_lab.tracking.wandb_tracker import Live

if TYPE_CHECKING:
    from rich.progress import Progress

# The least seconds between two lines about a phase of a unit.
QUIET_SECONDS = 5.0
# Texts and numbers of an error differ between samples; paths of functions do not.
_OF_SAMPLES = re.compile(r"""('[\w.]+:\w+')|'[^']*'|"[^"]*"|\d[\w.]*""")
Event = Mapping[str, Any]


def execute_plan(
    run: Run,
    *,
    resume: str,
    live: Live | None = None,
    **settings: Any,
) -> Outcome:
    """Execute with a display.

    An interrupt prints the command `resume` and exits with 130. A refusal of the system, as on a
    full disk, exits with 1. `live` receives every event; its notes become warnings.
    """

    def on_event(name: str, payload: dict[str, Any]) -> None:
        display(name, payload)
        for note in live.event(name, payload) if live else ():
            warn(note)

    try:
        studies = {cell.id: cell.study for cell in run.plan.cells}
        with _terminate_as_interrupt(), Display(studies) as display:
            return execute(run, on_event=on_event, **settings)
    except KeyboardInterrupt:
        say(f"Interrupted; every finished cell is kept. Continue with:\n{resume}")
        raise typer.Exit(INTERRUPTED) from None
    except (RefusedError, OSError, MemoryError) as error:
        refused = error if isinstance(error, RefusedError) else refusal(error)
        if refused is None:
            raise
        complain(refused)
        say("Finished cells are kept. Remove the cause, then continue with:")
        say(resume)
        raise typer.Exit(1) from None


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Turn SIGTERM, which schedulers send, into Ctrl-C, also before the measurement."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Display:
    """The progress of a run from its events: a bar on a terminal, else plain lines.

    The bar, the percentage and the count are in cells. `studies` has the kind of study of each
    cell. Messages on stderr stay above the bar.
    """

    def __init__(
        self, studies: Mapping[str, str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._printed = clock, clock()
        self._studies = studies or {}
        self._bar = _bar() if sys.stderr.isatty() else None
        # The time begins with the first unit: the start of the workers does not count.
        self._begun: float | None = None
        self._cells, self._done = Counter[str](), Counter[str]()
        self._seconds: dict[str, list[float]] = {}
        self._timed = False
        # Cells by error without sample values; only the first cell of an error is printed.
        self._errors: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.stop()
        for first, *others in self._errors.values():
            if others:
                count = "1 more cell" if len(others) == 1 else f"{len(others)} more cells"
                warn(f"{count} failed as cell {first} did")

    def __call__(self, name: str, event: Event) -> None:
        """Handle an event of a run and show it."""
        self._count(name, event)
        current, due = self._current(name, event)
        for line in notes(name, event):
            warn(line)
        if self._bar:
            (task,) = self._bar.tasks
            current = current or task.fields["current"]
            total, completed = self._cells.total(), self._done.total()
            self._bar.update(
                task.id,
                total=total,
                completed=completed,
                description=self.line(),
                current=current,
            )
        elif due:
            say(f"{self.line()}; {current}")
            self._printed = self._clock()

    def line(self) -> str:
        """Return the counts of done and failed cells, and the time left after the first unit."""
        failed = sum(map(len, self._errors.values()))
        line = f"{self._done.total()}/{self._cells.total()} cells"
        line += f", {failed} failed" if failed else ""
        remaining = self._seconds_left()
        return f"{line}, {estimate(remaining)} left" if remaining else line

    def _seconds_left(self) -> float | None:
        """Return the time of the remaining cells; None before the first unit is measured.

        A cell, also a failed cell, counts with the mean time of its kind of study, or of all kinds
        if no cell of its kind is measured.
        """
        times = [seconds for each in self._seconds.values() for seconds in each]
        if self._begun is None or not self._timed or not sum(times):
            return None
        remaining, done = (
            sum(count * fmean(self._seconds.get(study) or times) for study, count in cells.items())
            for cells in (self._cells - self._done, self._done)
        )
        # Several workers measure at once, so their times add up to more than the elapsed time.
        return (self._clock() - self._begun) * remaining / done

    def _count(self, name: str, event: Event) -> None:
        """Count the cells of an event."""
        study = self._studies.get(event.get("cell", ""), "")
        match name:
            case "run_started":
                self._cells.update(self._studies.get(cell, "") for cell in event["cell_ids"])
            case "unit_started" if self._begun is None:
                self._begun = self._clock()
            case "unit_finished":
                self._timed = True
            case "cell_done":
                self._done[study] += 1
                self._seconds.setdefault(study, []).append(event["seconds"] or 0.0)
            case "cell_failed":
                self._done[study] += 1
                error = _OF_SAMPLES.sub(r"\1", event["error"])
                alike = self._errors.setdefault(error, [])
                alike.append(event["cell"])
                if len(alike) == 1:
                    warn(f"cell {event['cell']} failed: {event['error']}")

    def _current(self, name: str, event: Event) -> tuple[str, bool]:
        """The current activity, if the event has one, and whether to print it without a bar."""
        match name:
            case "progress":
                phase = "warm-up" if event["phase"] == "warmup" else event["phase"]
                done = event.get("step", event.get("done", 0))
                total = event.get("steps", event.get("of", 1))
                due = self._clock() - self._printed >= QUIET_SECONDS
                return f"{phase} {done}/{total}: {event['unit']}", due
            case "unit_finished":
                return f"finished {event['unit']}", True
        return "", False


def _bar() -> Progress:
    """Return a bar with one task for the terminal; elsewhere a run does not import rich."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.table import Column

    bar = Progress(
        BarColumn(bar_width=16),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn(
            "{task.fields[current]}",
            style="dim",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        console=console(stderr=True),
        transient=True,
        expand=True,
    )
    bar.add_task("", total=None, current="starting the workers")
    return bar


def notes(name: str, event: Event) -> list[str]:
    """Return the warnings in an event."""
    match name:
        case "stale":
            return [stale_line(event["records"])]
        case "waiting":
            units, drivers = "; ".join(event["units"]), "; ".join(event["drivers"])
            count = "a unit" if len(event["units"]) == 1 else f"{len(event['units'])} units"
            return [f"waiting for {count} that another run measures ({drivers}): {units}"]
    return []
