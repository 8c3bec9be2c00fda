"""The work of an exact unit: score weights of groups of rewards, or objectives along a parameter.

A group has n samples; an instance has A trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache as remembered
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.environment import Environment, Instances, make_environment, supports
from maxk_lab.environments.rollouts import check_scorable, checked
from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.execution.checkpoints import initial_policy
from maxk_lab.gradients.enumerated.exact import checked_probabilities, exact_value
from maxk_lab.planning.identity import environment_key
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.exact.spec import rewards_only_refusal
from maxk_lab.sweep_file.place import moved
from maxk_lab.sweep_file.studies import Event, Measured

CHUNK = 4096
# Values closer than this share of their range are equal.
TIE = 1e-12
# The optimum is refined to this share of the distance between two points.
REFINEMENT = 1e-7

# A cell → its metrics.
Work = Callable[[Mapping[str, Any]], dict[str, Any]]


def measure(
    unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], *, cache: Path | None, event: Event
) -> Iterator[Measured]:
    """Yield (cell id, metrics or exception) of every cell of a unit.

    `event` gets the number of measured cells as "cells"; `cache` is not used.
    """
    torch.set_num_threads(1)
    metrics = _curves(unit) if "objective" in unit else _weights(unit)
    for done, cell in enumerate(cells, start=1):
        try:
            result: dict[str, Any] | Exception = metrics(cell)
        except Exception as error:
            result = error
        event("cells", {"done": done, "of": len(cells)})
        yield cell["id"], result


def _instances(unit: Mapping[str, Any], environment: Environment, count: int) -> Instances:
    return environment.instances(count, derive_seed("instances", _data_seed(unit)))


def _data_seed(unit: Mapping[str, Any]) -> int:
    return derive_seed("study", environment_key(unit["environment"]), unit["seed"])


def _weights(unit: Mapping[str, Any]) -> Work:
    """Return the work of a cell of weights; all cells of one n have the same groups."""
    rewards_of_n = remembered(partial(_rewards, unit))

    def metrics(cell: Mapping[str, Any]) -> dict[str, Any]:
        rewards, method = rewards_of_n(cell["n"]), Method.of(cell)
        if (refused := rewards_only_refusal(method)) is not None:
            raise LabError(refused)
        weights = method.weights(rewards)
        numbers = {row.name: load(row.implementation)(weights) for row in measures_of("weights")}
        return {"rewards": rewards.tolist(), "weights": weights.tolist()} | numbers

    return metrics


def _rewards(unit: Mapping[str, Any], n: int) -> Tensor:
    """Return the rewards of a group of each instance in drawing order, [groups, n] float64."""
    environment = make_environment(unit["environment"], unit["policy"])
    policy = initial_policy(environment, unit)
    instances = _instances(unit, environment, unit["groups"])
    seed = derive_seed("weights", _data_seed(unit), n)
    rollouts = environment.rollout(policy, instances, n, seed=seed)
    rewards = checked(rollouts, n, unit["groups"]).rewards
    check_scorable(rewards, "", "weights")
    return rewards.double()


def zero_share(weights: Tensor) -> float:
    """Return the share of the weights that are zero."""
    return float((weights == 0).double().mean())


def weight_sum(weights: Tensor) -> float:
    """Return the sum of the weights of a group, averaged over groups."""
    return float(weights.sum(-1).mean())


def weight_min(weights: Tensor) -> float:
    """Return the least weight of all groups."""
    return float(weights.min())


def _curves(unit: Mapping[str, Any]) -> Work:
    """Return the work of a cell of an objective along the parameter of the unit.

    All points share one instance and, if the initial policy is random, its seed.
    """
    along = unit["objective"]
    points = [float(x) for x in np.linspace(along["from"], along["to"], along["points"])]
    objectives_at = remembered(partial(_exact_objectives, unit))

    def metrics(cell: Mapping[str, Any]) -> dict[str, Any]:
        objective = Method.parse(cell["estimator"], k=cell["k"]).objective_at(cell["n"])

        def value(x: float) -> float:
            return objectives_at(x)(objective)

        values = list(map(value, points))
        if not np.isfinite(values).all():
            first = points[int(np.flatnonzero(~np.isfinite(values))[0])]
            raise LabError(f"the objective is not finite at {along['parameter']} = {first:g}")
        reason = _no_optimum(along["parameter"], points, values)
        optimum = None if reason else _refined(points, values, value)
        return {
            "parameter": along["parameter"],
            "points": points,
            "values": values,
            "optimum": optimum,
            "optimum_value": None if optimum is None else value(optimum),
            "undefined": {"optimum": reason, "optimum_value": reason} if reason else {},
        }

    return metrics


def _no_optimum(parameter: str, points: Sequence[float], values: Sequence[float]) -> str | None:
    """Return why the points do not show where the objective is largest, or None."""
    spread = max(values) - min(values)
    # Rounding alone makes values differ, too.
    if spread <= TIE * max(map(abs, values), default=0.0):
        return f"the objective does not depend on {parameter}"
    best = int(np.argmax(values))
    ties = [i for i, value in enumerate(values) if value >= values[best] - TIE * spread]
    if ties[0] == 0 or ties[-1] == len(points) - 1:
        edge = points[0] if ties[0] == 0 else points[-1]
        return (
            f"the largest value is at the edge, {parameter} = {edge:g}: the optimum may lie beyond"
        )
    if ties[-1] - ties[0] > 1:
        ends = f"{points[ties[0]]:g} to {points[ties[-1]]:g}"
        return f"the largest value is not at one place: {parameter} = {ends} reach it"
    return None


def _refined(
    points: Sequence[float], values: Sequence[float], value: Callable[[float], float]
) -> float:
    """Return the place of the largest value between the neighbours of the best point."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmax(values))
    low, high = points[best - 1], points[best + 1]
    result = minimize_scalar(
        lambda x: -value(float(x)),
        bounds=(low, high),
        method="bounded",
        options={"xatol": REFINEMENT * (high - low)},
    )
    return points[best] if values[best] > -result.fun else float(result.x)


def _exact_objectives(unit: Mapping[str, Any], x: float) -> Callable[[Objective], float]:
    """Return the exact objectives of the unit's environment with its parameter at `x`."""
    environment, policy = _made(unit, x)
    instance = _instances(unit, environment, 1)
    if environment.enumerable:
        probabilities, rewards = _all_trajectories(environment, policy, instance)
        return lambda objective: float(exact_value(probabilities, rewards, objective))
    if not supports(environment, "exact_objective"):
        raise LabError(f"the objectives of {unit['environment']['name']} are not known exactly")

    @torch.no_grad()
    def integrated(objective: Objective) -> float:
        return float(environment.exact_objective(policy, instance, objective))

    return integrated


def _made(unit: Mapping[str, Any], x: float) -> tuple[Environment, nn.Module]:
    key = unit["objective"]["parameter"]
    environment, policy = moved(unit["environment"], unit["policy"], key, x)
    made = make_environment(environment, policy)
    # The seed of the parameters before they are moved: the points differ by the parameter alone.
    policy_seed = derive_seed(
        "policy", environment_key(unit["environment"]), unit["policy"], unit["seed"]
    )
    return made, made.policy(policy_seed)


@torch.no_grad()
def _all_trajectories(
    environment: Environment, policy: nn.Module, instance: Instances
) -> tuple[Tensor, Tensor]:
    """Return probabilities and rewards of every trajectory of an instance, [A] each, float64."""
    actions, rewards = environment.enumerate(instance)
    log_probs = [
        environment.log_probs(policy, instance, chunk.unsqueeze(0))[0]
        for chunk in torch.split(actions, CHUNK)
    ]
    return checked_probabilities(torch.cat(log_probs)), rewards.double()
