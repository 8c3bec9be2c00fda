"""Progress of a run on stderr: a rich bar on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from maxk_lab.cli.console import console, estimate, say, warn
from maxk_lab.sweeps.plan.changes import stale_lines
from maxk_lab.sweeps.plan.plan import Plan

# Plain lines: at most one about a unit's phase in this many seconds.
QUIET_SECONDS = 5.0
# No time is told before this share of the work is done: the first guesses are wild.
LEAST_SHARE = 0.02


class Display:
    """The progress of a run, in units of work rather than cells, shown as its events come in."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan, self._clock, self._said = plan, clock, clock()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[current]}", style="dim", markup=False),
            console=console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._bar.add_task("", total=0.0, current="starting the workers")
        # The work of each unit by its phases, and what is done of it.
        self._work: dict[str, Mapping[str, float]] = {}
        self._done: dict[str, float] = {}
        # When the first unit began: starting the workers is not timed.
        self._begun: float | None = None
        self._cells = self._finished = self._failed = 0
        self._queue: tuple[set[str], bool] = (set(), False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, name: str, event: dict[str, Any]) -> None:
        """Take in one event of a run and show it."""
        current = ""
        if name == "run_started":
            self._start(set(event["cell_ids"]))
        elif name == "unit_started" and self._begun is None:
            self._begun = self._clock()
        elif name in ("cell_done", "cell_failed"):
            self._finished += 1
            self._failed += name == "cell_failed"
        elif name == "measured_elsewhere":
            self._finished += len(event["cells"])
        elif name == "progress":
            current = self._reach(event)
        elif name == "unit_finished":
            self._advance(event["unit"], sum(self._work[event["unit"]].values()))
        elif name == "jobs":
            current = jobs_line(event)
        for line in notes(name, event):
            self.note(line)
        if name == "reused":
            self._print(reused(event))
        self._bar.update(self._bar.task_ids[0], description=self.line())
        if current:
            self._bar.update(self._bar.task_ids[0], current=current)
        if self._bar.disable and self._is_time(name, event):
            say(f"{self.line()}; {current or 'finished ' + event['unit']}")
            self._said = self._clock()

    def note(self, text: str) -> None:
        """Print a warning, which stays."""
        warn(text) if self._bar.disable else self._print(f"warning: {text}")

    def line(self) -> str:
        """Return the cells that are done and failed, and the time left."""
        failed = f", {self._failed} failed" if self._failed else ""
        left = self.seconds_left
        eta = "" if left is None else f", {estimate(left)} left"
        return f"{self._finished}/{self._cells} cells{failed}{eta}"

    @property
    def share(self) -> float:
        """The share of the work that is done, in [0, 1]."""
        task = self._bar.tasks[0]
        return min(1.0, task.completed / task.total) if task.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The seconds left, or None as long as that is a wild guess, and at the end."""
        if self._begun is None or not LEAST_SHARE <= self.share < 1.0:
            return None
        return (self._clock() - self._begun) * (1.0 - self.share) / self.share

    def _print(self, text: str) -> None:
        say(text) if self._bar.disable else self._bar.console.print(text)

    def _start(self, cells: set[str]) -> None:
        self._cells = len(cells)
        self._work = {
            unit.label: unit.work()
            for unit in self._plan.units
            if any(cell.id in cells for cell in unit.cells)
        }
        total = sum(sum(work.values()) for work in self._work.values())
        self._bar.update(self._bar.task_ids[0], total=total)

    def _reach(self, event: Mapping[str, Any]) -> str:
        """Take note of how far a unit is in a phase of its work, and return it in words."""
        unit, phase = event["unit"], event["phase"]
        done = event.get("step", event.get("done", 0))
        of = event.get("steps", event.get("of", 1))
        self._advance(unit, work_done(self._work[unit], phase, done / max(of, 1)))
        return f"{unit}: {'warm-up' if phase == 'warmup' else phase} {done}/{of}"

    def _advance(self, unit: str, done: float) -> None:
        more = done - self._done.get(unit, 0.0)
        self._done[unit] = done
        self._bar.advance(self._bar.task_ids[0], more)

    def _is_time(self, name: str, event: Mapping[str, Any]) -> bool:
        """Return whether an event is worth a plain line: why jobs wait is, their number is not."""
        if name == "jobs":
            before, self._queue = self._queue, (set(event["queued"]), bool(event["running"]))
            return self._queue != before
        quiet = self._clock() - self._said < QUIET_SECONDS
        return name == "unit_finished" or (name == "progress" and not quiet)


def work_done(work: Mapping[str, float], phase: str, share: float) -> float:
    """Return the work of a unit that is done at a share of a phase: all of the earlier ones is.

    Cells are measured when all the work that counts is done.
    """
    if phase not in work:
        return sum(work.values())
    earlier = takewhile(lambda name: name != phase, work)
    return sum(work[name] for name in earlier) + share * work[phase]


def jobs_line(event: Mapping[str, Any]) -> str:
    """Return how many jobs of a cluster wait, why, and how many run."""
    reasons = event["queued"].items()
    counts = [f"{count} queued{f' ({why})' if why else ''}" for why, count in reasons]
    counts += [f"{event['running']} running"] if event["running"] else []
    return f"jobs: {', '.join(counts)}"


def reused(event: Mapping[str, Any]) -> str:
    """Return the sentence about cells that another run had measured."""
    return (
        f"{len(event['cell_ids'])} of {event['cells']} cells reused from run {event['run']}"
        f"{event['measured']}"
    )


def notes(name: str, event: Mapping[str, Any]) -> list[str]:
    """Return the warnings that an event brings."""
    if name == "damaged":
        return list(map(str, event["problems"]))
    if name == "stale":
        return stale_lines(event["because"])
    if name == "worker_died":
        again = f"{event['unit']} is begun again"
        if "alone" in event:
            again = f"the {event['alone']} cells left of {event['unit']} are tried one by one"
        return [f"a worker process died or was ended ({event['ending']}): {again}"]
    if name == "jobs":
        return [
            f"jobs wait for a reason that does not pass by itself ({reason}): {advice}"
            for reason, advice in event["stuck"].items()
        ]
    if name == "waiting":
        units, drivers = event["units"], "; ".join(event["drivers"])
        count = "a unit" if len(units) == 1 else f"{len(units)} units"
        return [f"waiting for {count} that another run measures ({drivers}): {'; '.join(units)}"]
    if name in ("lost", "left") and "why" in event:
        return [f"{event['unit']}: {event['why']}"]
    if name == "cell_failed":
        return [f"cell {event['cell']} failed: {event['error']}"]
    return []
