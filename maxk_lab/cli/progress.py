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
Event = Mapping[str, Any]


class Display:
    """The progress of a run, in units of work rather than cells, shown as its events come in.

    Lines that are printed meanwhile, through stderr, stay above the bar.
    """

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
        self._task = self._bar.add_task("", total=1.0, current="starting the workers")
        # The work of each unit by its phases, and what is done of it; then that of all.
        self._work: dict[str, Mapping[str, float]] = {}
        self._done: dict[str, float] = {}
        self._total = self._worked = 0.0
        # When the first unit began: starting the workers is not timed.
        self._begun: float | None = None
        self._cells = self._finished = 0
        # The cells that failed with an error, by its text: the first of them is told.
        self._errors: dict[str, list[str]] = {}
        # Why jobs wait, and whether some run.
        self._queue: tuple[set[str], bool] | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
        for first, *others in self._errors.values():
            if others:
                count = "1 more cell" if len(others) == 1 else f"{len(others)} more cells"
                warn(f"{count} failed as cell {first} did")

    def __call__(self, name: str, event: Event) -> None:
        """Take in one event of a run and show it."""
        # Each returns what is going on, to be said where there is no bar, if anything.
        take = getattr(self, f"_take_{name}", None)
        current, due = (take(event) if take else None) or ("", False)
        for line in notes(name, event):
            warn(line)
        if not self._bar.disable:
            current = current or self._bar.tasks[0].fields["current"]
            line, share = self.line(), self.share
            self._bar.update(self._task, description=line, completed=share, current=current)
        elif due:
            say(f"{self.line()}; {current}")
            self._said = self._clock()

    def line(self) -> str:
        """Return the cells that are done and failed, and the time left."""
        failed, share = sum(map(len, self._errors.values())), self.share
        line = f"{self._finished}/{self._cells} cells{f', {failed} failed' if failed else ''}"
        if self._begun is None or not LEAST_SHARE <= share < 1.0:
            return line
        left = (self._clock() - self._begun) * (1.0 - share) / share
        return f"{line}, {estimate(left)} left"

    @property
    def share(self) -> float:
        """The share of the work that is done, in [0, 1]."""
        # Of many small parts the sum may lack a rounding of the whole.
        return min(1.0, round(self._worked / self._total, 9)) if self._total else 0.0

    def _take_run_started(self, event: Event) -> None:
        cells = set(event["cell_ids"])
        self._cells = len(cells)
        units = [u for u in self._plan.units if not cells.isdisjoint(cell.id for cell in u.cells)]
        self._work = {unit.label: unit.work() for unit in units}
        self._total = sum(sum(work.values()) for work in self._work.values())

    def _take_reused(self, event: Event) -> None:
        count = f"{len(event['cell_ids'])} of {event['cells']} cells"
        say(f"{count} reused from run {event['run']}{event['measured']}")

    def _take_unit_started(self, event: Event) -> None:
        self._begun = self._clock() if self._begun is None else self._begun

    def _take_cell_done(self, event: Event) -> None:
        self._finished += 1

    def _take_cell_failed(self, event: Event) -> None:
        self._finished += 1
        alike = self._errors.setdefault(event["error"], [])
        alike.append(event["cell"])
        if len(alike) == 1:
            warn(f"cell {event['cell']} failed: {event['error']}")

    def _take_measured_elsewhere(self, event: Event) -> None:
        self._finished += len(event["cells"])

    def _take_progress(self, event: Event) -> tuple[str, bool]:
        """Take note of how far a unit is in a phase of its work."""
        unit, phase = event["unit"], event["phase"]
        done = event.get("step", event.get("done", 0))
        of = event.get("steps", event.get("of", 1))
        self._advance(unit, work_done(self._work[unit], phase, done / max(of, 1)))
        current = f"{unit}: {'warm-up' if phase == 'warmup' else phase} {done}/{of}"
        return current, self._clock() - self._said >= QUIET_SECONDS

    def _take_unit_finished(self, event: Event) -> tuple[str, bool]:
        self._advance(event["unit"], sum(self._work[event["unit"]].values()))
        return f"finished {event['unit']}", True

    def _take_jobs(self, event: Event) -> tuple[str, bool]:
        """Take note of how many jobs of a cluster wait, why, and how many run."""
        queued, running = event["queued"].items(), event["running"]
        counts = [f"{count} queued{f' ({why})' if why else ''}" for why, count in queued]
        counts += [f"{running} running"] if running else []
        before, self._queue = self._queue, (set(event["queued"]), bool(running))
        return f"jobs: {', '.join(counts)}", self._queue != before

    def _advance(self, unit: str, done: float) -> None:
        self._worked += done - self._done.get(unit, 0.0)
        self._done[unit] = done


def work_done(work: Mapping[str, float], phase: str, share: float) -> float:
    """Return the work of a unit that is done at a share of a phase: all of the earlier ones is.

    Cells are measured when all the work that counts is done.
    """
    if phase not in work:
        return sum(work.values())
    earlier = takewhile(lambda name: name != phase, work)
    return sum(work[name] for name in earlier) + share * work[phase]


def notes(name: str, event: Event) -> list[str]:
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
    if name == "waiting":
        units, drivers = event["units"], "; ".join(event["drivers"])
        count = "a unit" if len(units) == 1 else f"{len(units)} units"
        return [f"waiting for {count} that another run measures ({drivers}): {'; '.join(units)}"]
    why = event.get("why") if name in ("lost", "left") else None
    return [f"{event['unit']}: {why}"] if why else []
