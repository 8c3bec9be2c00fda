"""How much work a unit is, so that progress and times can be told before every unit has been timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan import Plan
    from maxk_lab.sweeps.records import RunDirectory

# Cost of one trajectory step in warm-up (a backward per batch) and in scoring (a gradient per trajectory).
WARMUP_COST = 1.0
SCORE_COST = 2.0
# Seconds per unit of work where nothing has been timed yet: a small attention policy on one slow core.
FIRST_GUESS = 1.5e-4


def unit_work(unit: Mapping[str, Any]) -> dict[str, float]:
    """The work of the phases "warmup" and "scores" of a unit (`Unit.as_dict()`)."""
    warmup = unit["warmup"]
    trained = unit["stage"] * warmup["batch"] * warmup["n"] if warmup else 0
    steps = _steps(unit["environment"])
    return {
        "warmup": WARMUP_COST * steps * trained,
        "scores": SCORE_COST * steps * unit["instances"] * unit["pool"],
    }


def _steps(environment: Mapping[str, Any]) -> float:
    """Decisions per trajectory, as far as the environment's size tells."""
    from maxk_lab.environments.catalogue import ENVIRONMENTS

    # A bandit's trajectory is one decision without a network, whatever the number of arms.
    if environment["name"] == "bandit":
        return 0.05
    return float(environment[ENVIRONMENTS.get(environment["name"]).size_parameter])


def seconds_left(plan: Plan, run: RunDirectory, jobs: int) -> tuple[float, bool]:
    """Seconds for the missing cells with `jobs` processes, and whether that rests on units of this run."""
    from maxk_lab.sweeps.progress import estimate_seconds, statuses

    state = statuses(plan, run)
    todo = [unit for unit in plan.units if any(state[cell.id] == "missing" for cell in unit.cells)]
    shared = max(1, min(jobs, len(todo)))
    measured = estimate_seconds(plan, run)
    if measured is not None:
        return measured / shared, True
    return FIRST_GUESS * sum(sum(unit_work(unit.as_dict()).values()) for unit in todo) / shared, False
