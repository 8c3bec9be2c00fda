"""How much work a unit is, so that progress and times can be told before every unit has been timed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory

# Cost of one trajectory step in warm-up (a backward per batch), in scoring (a gradient per trajectory), in
# training (large batches) and in evaluating (no gradient).
WARMUP_COST = 1.0
SCORE_COST = 2.0
TRAINING_COST = 0.045
EVALUATION_COST = 0.04
# Cost of a step of the optimiser, however small its batch.
OPTIMIZER_COST = 100.0
# Cost of one exact objective at one value of the parameter: an integral, or a sum over all trajectories.
OBJECTIVE_COST = 10.0
# Rotated and mirrored copies of an instance.
AUGMENTATIONS = 8
# Seconds per unit of work where nothing has been timed yet: a small attention policy on one slow core.
FIRST_GUESS = 1.5e-4


def unit_work(unit: Mapping[str, Any]) -> dict[str, float]:
    """The work of the phases of a unit of any study (its `as_dict()`), in their order."""
    steps = _steps(unit["environment"])
    if "training" in unit:
        return {"training": _training_work(unit["training"], steps)}
    if "objective" in unit:
        return {"points": OBJECTIVE_COST * unit["objective"]["points"]}
    if "groups" in unit:
        return {"cells": steps * unit["groups"]}
    warmup = unit["warmup"]
    trained = unit["stage"] * warmup["batch"] * warmup["n"] if warmup else 0
    return {
        "warmup": WARMUP_COST * steps * trained,
        "scores": SCORE_COST * steps * unit["instances"] * unit["pool"],
    }


def _training_work(settings: Mapping[str, Any], decisions: float) -> float:
    """Steps, and trajectories weighted with their cost; multistart decodes one from each of about `decisions` first actions."""
    evaluate = settings["evaluate"]
    times = 1 + math.ceil(settings["steps"] / evaluate["every"])
    extra = {
        "greedy": 1,
        "augmentation": AUGMENTATIONS,
        "multistart": decisions + evaluate["samples"],
    }
    per_instance = times * evaluate["samples"] + sum(
        extra[name] for name in evaluate.get("extras", ())
    )
    steps: float = settings["steps"] * settings["inner_epochs"]
    evaluated: float = evaluate["instances"] * per_instance
    per_step: float = OPTIMIZER_COST + TRAINING_COST * decisions * settings["batch"]
    return per_step * steps + EVALUATION_COST * decisions * evaluated


def _steps(environment: Mapping[str, Any]) -> float:
    """Decisions per trajectory, as far as the environment's size tells."""
    from maxk_lab.environments.catalogue import ENVIRONMENTS

    return ENVIRONMENTS.get(environment["name"]).decisions(environment)


def seconds_left(plan: Plan, run: RunDirectory, jobs: int) -> tuple[float, bool]:
    """Seconds for the missing cells with `jobs` processes, and whether that rests on units of this run."""
    from maxk_lab.sweeps.run.progress import estimate_seconds, statuses

    state = statuses(plan, run)
    todo = [unit for unit in plan.units if any(state[cell.id] == "missing" for cell in unit.cells)]
    shared = max(1, min(jobs, len(todo)))
    measured = estimate_seconds(plan, run)
    if measured is not None:
        return measured / shared, True
    return FIRST_GUESS * sum(
        sum(unit_work(unit.as_dict()).values()) for unit in todo
    ) / shared, False
