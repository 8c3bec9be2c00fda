"""Progress of a run: a rich bar on a terminal, throttled plain lines elsewhere; both on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maxk_lab.cli.console import console, say, warn
from maxk_lab.cli.tracker import Tracker

if TYPE_CHECKING:
    from rich.progress import Progress

# Plain lines: at most one about a unit's phase in this many seconds.
QUIET_SECONDS = 5.0


class Lines:
    """Plain lines: one for each finished unit, and now and then one about the phase of a unit."""

    def __init__(self, tracker: Tracker, clock: Callable[[], float] = time.monotonic) -> None:
        self._tracker = tracker
        self._clock = clock
        self._last = clock()
        # Why jobs wait, and whether some run, when a line last said so.
        self._queue: tuple[set[str], bool] = (set(), False)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, name: str, payload: dict[str, Any]) -> None:
        """Take in one event of the execution and show it."""
        self._tracker.event(name, payload)
        if name == "reused":
            self.remark(reused(payload))
        for note in notes(name, payload):
            self.note(note)
        self.show(name, payload)

    def note(self, text: str) -> None:
        """Print a line that stays."""
        warn(text)

    def remark(self, text: str) -> None:
        """Print a line that stays, and warns of nothing."""
        say(text)

    def show(self, name: str, payload: dict[str, Any]) -> None:
        """Print a line, if it is time for one."""
        if name == "unit_finished":
            say(f"{self._tracker.line()}; finished {payload['unit']}")
        elif name == "progress" and self._clock() - self._last >= QUIET_SECONDS:
            say(f"{self._tracker.line()}; {self._tracker.current}")
        elif name == "jobs" and self._queue_changes(payload):
            say(f"{self._tracker.line()}; {self._tracker.jobs}")
        else:
            return
        self._last = self._clock()

    def _queue_changes(self, payload: dict[str, Any]) -> bool:
        """Take note of why jobs wait, and return whether that is news; their number is none."""
        before, self._queue = self._queue, (set(payload["queued"]), bool(payload["running"]))
        return self._queue != before


class Bar(Lines):
    """A rich progress bar."""

    _bar: Progress

    def __enter__(self) -> Bar:
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("{task.fields[line]}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[current]}", style="dim", markup=False),
            console=console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=1.0, line="", current="starting the workers")
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        """Print a line that stays, above the bar."""
        self._bar.console.print(f"warning: {text}")

    def remark(self, text: str) -> None:
        """Print a line that stays, above the bar."""
        self._bar.console.print(text, markup=False)

    def show(self, name: str, payload: dict[str, Any]) -> None:
        """Bring the bar up to date."""
        tracker = self._tracker
        current = tracker.current or tracker.jobs or "starting the workers"
        self._bar.update(self._task, completed=tracker.share, line=tracker.line(), current=current)


def reused(payload: dict[str, Any]) -> str:
    """Return the sentence about cells that another run had measured."""
    return (
        f"{len(payload['cell_ids'])} of {payload['cells']} cells reused from run {payload['run']}"
        f"{payload['measured']}"
    )


def notes(name: str, payload: dict[str, Any]) -> list[str]:
    """Return the warnings that an event brings, whatever the display."""
    if name == "damaged":
        return list(map(str, payload["problems"]))
    if name == "stale":
        from maxk_lab.sweeps.plan.changes import stale_lines

        return stale_lines(payload["because"])
    if name == "worker_died":
        again = f"{payload['unit']} is begun again"
        if "alone" in payload:
            again = f"the {payload['alone']} cells left of {payload['unit']} are tried one by one"
        return [f"a worker process died or was ended ({payload['ending']}): {again}"]
    if name == "jobs":
        return [
            f"jobs wait for a reason that does not pass by itself ({reason}): {advice}"
            for reason, advice in payload["stuck"].items()
        ]
    if name == "waiting":
        units, drivers = payload["units"], "; ".join(payload["drivers"])
        count = "a unit" if len(units) == 1 else f"{len(units)} units"
        return [f"waiting for {count} that another run measures ({drivers}): {'; '.join(units)}"]
    if name in ("lost", "left") and "why" in payload:
        return [f"{payload['unit']}: {payload['why']}"]
    if name == "cell_failed":
        return [f"cell {payload['cell']} failed: {payload['error']}"]
    return []
