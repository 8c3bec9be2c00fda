"""The best reward of RL4CO's instances, by the method its name says: held_karp, milp or pyvrp."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.environments.capabilities import Optima
from maxk_lab.environments.routing.optima.held_karp import shortest_tours
from maxk_lab.environments.routing.setup import in_precision
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from tensordict import TensorDict

    from maxk_lab.environments.routing.optima.one_tour import OneTour

# Held–Karp fills a table of n² 2ⁿ numbers an instance, so that up to here it takes a moment.
HELD_KARP_CITIES = 12


def optimum_method(environment: Any, instances: TensorDict, asked: str) -> str | None:
    """The method for what `evaluate.reference` asks; None leaves it to enumeration.

    Raises `LabError` where `auto` asks for what takes longer than a moment.
    """
    solved = environment.row.optima
    if asked == "pyvrp":
        return "pyvrp"
    if environment.name == "tsp" and instances["locs"].shape[1] <= HELD_KARP_CITIES:
        return "held_karp"
    if asked == "auto" and solved and not environment.enumerable:
        raise LabError(f"takes more than a moment: ask for {' or '.join(solved)}")
    return "milp" if asked == "exact" and "exact" in solved and not environment.enumerable else None


def best_rewards(environment: Any, instances: TensorDict, method: str) -> Optima:
    """The optima of `instances`: solutions are found in double precision.

    Their values are what RL4CO's own reward gives for them in double precision, once RL4CO has
    checked that they are feasible. Raises `LabError` where the environment has no such method.
    """
    name = environment.name
    asked = "pyvrp" if method == "pyvrp" else "exact"
    known = asked in environment.row.optima and (method != "held_karp" or name == "tsp")
    if method not in _SOLVERS or not known:
        raise LabError(f"there is no optimum by {method} for {name}")
    state = in_precision(instances, torch.float64).cpu()
    values = _rewards(environment.env, state, _SOLVERS[method](name, state))
    return Optima(values, method, exact=method != "pyvrp")


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


def _rewards(env: Any, state: TensorDict, nodes: list[list[int]]) -> Tensor:
    """RL4CO's reward [B] of going from the depot (tsp: city 0) to these nodes in order.

    Raises RL4CO's error for a tour that is not feasible.
    """
    rows = [[0, *order] if env.name == "tsp" else order for order in nodes]
    # The tours of these end with an action, back to the depot; and more visits there cost nothing.
    longest = max(len(row) for row in rows) + (env.name in ("op", "pctsp", "spctsp"))
    actions = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    reward: Tensor = env.get_reward(state, actions, check_solution=True)
    return reward.double()


_SOLVERS: dict[str, Callable[[str, TensorDict], list[list[int]]]] = {
    "held_karp": _held_karp,
    "milp": _milp,
    "pyvrp": _pyvrp,
}
