"""The best reward of every instance of a batch, by the method its name says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.environments.routing.optima.availability import HELD_KARP_CITIES, ONE_TOUR, PYVRP
from maxk_lab.environments.routing.optima.held_karp import shortest_tours
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from tensordict import TensorDict

    from maxk_lab.environments.routing.optima.one_tour import OneTour

# Where a reference is not asked for by name, at most so many trajectories are listed.
AUTO_TRAJECTORIES = 250_000


@dataclass(frozen=True)
class Optima:
    """values [B] float64: the environment's reward of the best solution of each instance; `exact` where it is proved to be best."""

    values: Tensor
    kind: str
    exact: bool


def optima(environment: Environment, instances: Instances, kind: str) -> Optima:
    """The optima of `instances` by the method `kind`: enumeration, held_karp, milp or pyvrp.

    `enumeration` takes the largest reward among all trajectories, in the precision of the instances, as a policy's rewards are;
    NaN where none can be scored. The others find a solution in double precision, and its value is what RL4CO's own reward gives
    for it in double precision, once RL4CO has checked that it is feasible. Raises `LabError` where the environment has no such
    method.
    """
    if kind == "enumeration":
        return Optima(_enumerated(environment, instances), kind, exact=True)
    name = getattr(environment, "name", "")
    if kind not in _SOLVERS or name not in _SOLVERS[kind][0]:
        raise LabError(f"there is no optimum by {kind} for {name or type(environment).__name__}")
    solve = _SOLVERS[kind][1]
    state = instances.apply(lambda x: x.double() if x.is_floating_point() else x).cpu()
    return Optima(_rewards(environment, state, solve(name, state)), kind, exact=kind != "pyvrp")


def method_for(environment: Environment, instances: Instances, reference: str) -> str:
    """The method of `optima` that `evaluate.reference` stands for here. Raises `LabError` with the reason where there is none."""
    name = getattr(environment, "name", "")
    if reference == "pyvrp":
        return "pyvrp"
    if name == "tsp" and instances["locs"].shape[1] <= HELD_KARP_CITIES:
        return "held_karp"
    if environment.enumerable:
        if reference == "auto" and _trajectories(environment, instances) > AUTO_TRAJECTORIES:
            raise LabError(
                "the trajectories of all held-out instances are many to list: ask for exact"
            )
        return "enumeration"
    if reference == "exact" and name in ONE_TOUR:
        return "milp"
    can = [kind for kind, names in (("exact", ONE_TOUR), ("pyvrp", PYVRP)) if name in names]
    if reference == "auto" and can:
        raise LabError(f"takes more than a moment: ask for {' or '.join(can)}")
    raise LabError("no optimum is known for this environment and size")


def _trajectories(environment: Environment, instances: Instances) -> int:
    return len(environment.enumerate(environment.select(instances, 0))[1]) * len(instances)


def _enumerated(environment: Environment, instances: Instances) -> Tensor:
    best = []
    for index in range(len(instances)):
        rewards = environment.enumerate(environment.select(instances, index))[1].double()
        scored = rewards[~rewards.isnan()]
        best.append(scored.max() if len(scored) else torch.tensor(torch.nan, dtype=torch.float64))
    return torch.stack(best)


def _held_karp(name: str, state: TensorDict) -> list[list[int]]:
    points = state["locs"].numpy()
    lengths = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
    orders: list[list[int]] = shortest_tours(lengths)[:, 1:].tolist()
    return orders


def _milp(name: str, state: TensorDict) -> list[list[int]]:
    from maxk_lab.environments.routing.optima.one_tour import best_tour

    return [best_tour(_one_tour(name, state[index]))[1:] for index in range(len(state))]


def _one_tour(name: str, state: TensorDict) -> OneTour:
    from maxk_lab.environments.routing.optima.one_tour import OneTour

    points = state["locs"].numpy()
    if name == "tsp":
        return OneTour(points, skipping=np.full(len(points), np.inf))
    if name == "op":
        # At node 0, from where nothing is left to go: the longest tour.
        return OneTour(
            points, state["prize"].numpy(), length_cost=0.0, longest=float(state["max_length"][0])
        )
    prize = state["real_prize"].numpy()
    # Where all prizes together are too few, RL4CO asks for all nodes.
    enough = prize.sum() >= 1.0
    skipping = state["penalty"].numpy() if enough else np.full(len(points), np.inf)
    return OneTour(points, skipping, prize=prize, least_prize=1.0 if enough else 0.0)


def _pyvrp(name: str, state: TensorDict) -> list[list[int]]:
    from maxk_lab.environments.routing.optima.with_pyvrp import best_known

    return [best_known(name, state[index : index + 1]) for index in range(len(state))]


def _rewards(environment: Any, state: TensorDict, nodes: list[list[int]]) -> Tensor:
    """RL4CO's reward [B] of going from the depot (tsp: city 0) to these nodes in order, checked to be feasible."""
    name = environment.name
    rows = [[0, *order] if name == "tsp" else order for order in nodes]
    # The tours of these end with an action, back to the depot; and more visits there cost nothing.
    longest = max(len(row) for row in rows) + (name in ("op", "pctsp", "spctsp"))
    actions = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    reward: Tensor = environment.env.get_reward(state, actions, check_solution=True)
    return reward.double()


_SOLVERS: dict[str, tuple[tuple[str, ...], Callable[[str, TensorDict], list[list[int]]]]] = {
    "held_karp": (("tsp",), _held_karp),
    "milp": (ONE_TOUR, _milp),
    "pyvrp": (PYVRP, _pyvrp),
}
