"""Seconds left of a run, from its records or, before any unit has been timed, from its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory


def seconds_left(plan: Plan, run: RunDirectory, jobs: int) -> tuple[float, bool]:
    """Return the seconds that the missing cells take, and whether units of this run were timed."""
    from maxk_lab.sweeps.plan.needs import SECONDS
    from maxk_lab.sweeps.run.progress import estimate_seconds, statuses

    state = statuses(plan, run)
    todo = [unit for unit in plan.units if any(state[cell.id] == "missing" for cell in unit.cells)]
    shared = max(1, min(jobs, len(todo)))
    measured = estimate_seconds(plan, run)
    if measured is not None:
        return measured / shared, True
    return SECONDS * sum(sum(unit.work().values()) for unit in todo) / shared, False
