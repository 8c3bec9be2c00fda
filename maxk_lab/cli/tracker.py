"""The progress of a run and the time that is left, from its events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxk_lab.cli.console import duration

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan

# No ETA before this share of the work is done: the first guesses are wild.
LEAST_SHARE = 0.02
PHASES = {"warmup": "warm-up"}


@dataclass
class UnitState:
    """The progress of one unit: its work per phase in order, and the share of each that is done."""

    work: Mapping[str, float]
    shares: dict[str, float] = field(default_factory=dict)
    finished: bool = False

    def reach(self, phase: str, share: float) -> float:
        """Take note of how far a phase is, and return the work that was done since the last."""
        before = self.done
        self.shares[phase] = share
        return self.done - before

    def finish(self) -> float:
        """Take note that all is done, and return the work that was done since the last."""
        before, self.finished = self.done, True
        return self.done - before

    @property
    def total(self) -> float:
        """All the work of the unit."""
        return sum(self.work.values())

    @property
    def done(self) -> float:
        """The work done; a later phase means that the earlier ones are done or were cached."""
        # Cells are measured when all the work that counts is done.
        later = self.finished or "cells" in self.shares
        done = 0.0
        for phase, work in reversed(list(self.work.items())):
            done += work * (1.0 if later else self.shares.get(phase, 0.0))
            later = later or phase in self.shares
        return done


class Tracker:
    """Counts what a run has done and estimates what is left, in units of work rather than cells."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._clock = clock
        self._start = clock()
        self._units: dict[str, UnitState] = {}
        # The work of all units, kept up with every event: a run may have ten thousand of them.
        self._total = self._worked = 0.0
        self._unfinished = 0
        self.cells = 0
        self.done = 0
        self.failed = 0
        self.current = ""
        # The jobs of a cluster that wait and run.
        self.jobs = ""

    def event(self, name: str, payload: Mapping[str, Any]) -> None:
        """Take in one event of a run; those that say nothing about progress are passed over."""
        if name == "run_started":
            to_do = set(payload["cell_ids"])
            self.cells = len(to_do)
            self._units = {
                unit.label: UnitState(unit.work())
                for unit in self._plan.units
                if any(cell.id in to_do for cell in unit.cells)
            }
            self._total = sum(unit.total for unit in self._units.values())
            self._worked, self._unfinished = 0.0, len(self._units)
        elif name == "progress":
            self._progress(payload)
        elif name == "jobs":
            self._count_jobs(payload)
        elif name == "cell_done":
            self.done += 1
        elif name == "cell_failed":
            self.failed += 1
        elif name == "measured_elsewhere":
            self.done += len(payload["cells"])
        elif name == "unit_finished":
            unit = self._units[payload["unit"]]
            self._unfinished -= not unit.finished
            self._worked += unit.finish()

    def _count_jobs(self, payload: Mapping[str, Any]) -> None:
        reasons = payload["queued"].items()
        counts = [f"{count} queued{f' ({why})' if why else ''}" for why, count in reasons]
        if payload["running"]:
            counts.append(f"{payload['running']} running")
        else:
            self.current = ""
        self.jobs = f"jobs: {', '.join(counts)}"

    def _progress(self, payload: Mapping[str, Any]) -> None:
        phase = payload["phase"]
        done = payload.get("step", payload.get("done", 0))
        of = payload.get("steps", payload.get("of", 1))
        self._worked += self._units[payload["unit"]].reach(phase, done / max(of, 1))
        self.current = f"{payload['unit']}: {PHASES.get(phase, phase)} {done}/{of}"

    @property
    def share(self) -> float:
        """The share of the work that is done, in [0, 1]."""
        if self._units and not self._unfinished:
            return 1.0
        return min(1.0, max(0.0, self._worked / self._total)) if self._total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds left, or None as long as that is a wild guess."""
        share = self.share
        if share < LEAST_SHARE:
            return None
        return (self._clock() - self._start) * (1.0 - share) / share

    def line(self) -> str:
        """Cells done and failed, and the time left."""
        left = self.seconds_left
        failed = f", {self.failed} failed" if self.failed else ""
        eta = "" if left is None or self.share >= 1.0 else f", about {duration(left)} left"
        return f"{self.done + self.failed}/{self.cells} cells{failed}{eta}"
