"""The work of an objective unit: exact objectives along one parameter, and their optima."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache as remembered
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, make_environment, supports
from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import checked_probabilities, exact_value
from maxk_lab.planning.identity import environment_key
from maxk_lab.seeds import derive_seed
from maxk_lab.sweep_file.place import moved
from maxk_lab.sweep_file.studies import Event, Measured

CHUNK = 4096
# Values closer than this share of their range are the same value.
TIE = 1e-12
# The optimum is refined to this share of the distance between two points.
REFINEMENT = 1e-7


def measure(
    unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], *, cache: Path | None, event: Event
) -> Iterator[Measured]:
    """Yield (cell id, metrics or exception) of every cell, moving one parameter.

    All points share one instance and, where the initial policy is random, its seed. `event` is told
    of every point, as "points"; `cache` is not used.
    """
    torch.set_num_threads(1)
    along = unit["objective"]
    points = [float(x) for x in np.linspace(along["from"], along["to"], along["points"])]
    at = remembered(lambda x: _exact_at(unit, x))
    total = len(points) * len(cells)
    for number, cell in enumerate(cells):

        def tell(done: int, before: int = number * len(points)) -> None:
            event("points", {"done": before + done, "of": total})

        try:
            wanted = Method.parse(cell["estimator"], k=cell["k"]).objective
            result: dict[str, Any] | Exception = _metrics(
                along["parameter"], points, at, wanted, tell
            )
        except Exception as error:
            result = error
        yield cell["id"], result


def _metrics(
    parameter: str,
    points: Sequence[float],
    at: Callable[[float], Callable[[Objective], float]],
    wanted: Objective,
    tell: Callable[[int], None],
) -> dict[str, Any]:
    values = []
    for x in points:
        values.append(at(x)(wanted))
        tell(len(values))
    reason = _no_optimum(parameter, points, values)
    optimum = None if reason else _refined(points, values, lambda x: at(x)(wanted))
    return {
        "parameter": parameter,
        "points": list(points),
        "values": values,
        "optimum": optimum,
        "optimum_value": None if optimum is None else at(optimum)(wanted),
        "undefined": {"optimum": reason, "optimum_value": reason} if reason else {},
    }


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
    found = minimize_scalar(
        lambda x: -value(float(x)),
        bounds=(low, high),
        method="bounded",
        options={"xatol": REFINEMENT * (high - low)},
    )
    return points[best] if values[best] > -found.fun else float(found.x)


def _exact_at(unit: Mapping[str, Any], x: float) -> Callable[[Objective], float]:
    """Return the exact objective of the unit's environment with its parameter at `x`."""
    environment, policy = _made(unit, x)
    data_seed = derive_seed("study", environment_key(unit["environment"]), unit["seed"])
    instance = environment.instances(1, derive_seed("instances", data_seed))
    if environment.enumerable:
        probabilities, rewards = _listed(environment, policy, instance)
        return lambda wanted: float(exact_value(probabilities, rewards, wanted))
    if not supports(environment, "exact_objective"):
        raise LabError(f"the objectives of {unit['environment']['name']} are not known exactly")

    @torch.no_grad()
    def integrated(wanted: Objective) -> float:
        return float(environment.exact_objective(policy, instance, wanted))

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
def _listed(
    environment: Environment, policy: nn.Module, instance: Instances
) -> tuple[Tensor, Tensor]:
    """Return probabilities and rewards of every trajectory of an instance, [A] each, float64."""
    actions, rewards = environment.enumerate(instance)
    parts = [
        environment.log_probs(policy, instance, part.unsqueeze(0))[0]
        for part in torch.split(actions, CHUNK)
    ]
    return checked_probabilities(torch.cat(parts)), rewards.double()
