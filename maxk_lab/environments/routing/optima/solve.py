"""The best reward of RL4CO's instances, by the method its name says: milp or pyvrp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.environments.environment import Optima
from maxk_lab.environments.routing.problems import in_precision
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from tensordict import TensorDict

    from maxk_lab.environments.routing.optima.one_tour import OneTour

# Tours through so many cities take a moment.
FEW_CITIES = 12


def optimum_method(environment: Any, instances: TensorDict, asked: str) -> str | None:
    """The method for what `evaluate.reference` asks; None leaves it to enumeration.

    Raises `LabError` where `auto` asks for what takes longer than a moment.
    """
    if asked == "pyvrp":
        return "pyvrp"
    if environment.name == "tsp" and instances["locs"].shape[1] <= FEW_CITIES:
        return "milp"
    solved = environment.row.optima
    if environment.enumerable or not solved:
        return None
    if asked == "auto":
        raise LabError(f"takes more than a moment: ask for {' or '.join(solved)}")
    return "milp" if asked == "exact" and "exact" in solved else None


def best_rewards(environment: Any, instances: TensorDict, method: str) -> Optima:
    """The optima of `instances`: solutions are found in double precision.

    Their values are what RL4CO's own reward gives for them in double precision, once RL4CO has
    checked that they are feasible; it raises its error for one that is not. Raises `LabError` where
    the environment has no such method.
    """
    name = environment.name
    declared = {"milp": "exact", "pyvrp": "pyvrp"}.get(method)
    if declared not in environment.row.optima:
        raise LabError(f"there is no optimum by {method} for {name}")
    state = in_precision(instances, torch.float64).cpu()
    if method == "milp":
        from maxk_lab.environments.routing.optima.one_tour import best_tour

        nodes = [best_tour(_one_tour(name, state[index]))[1:] for index in range(len(state))]
    else:
        from maxk_lab.environments.routing.optima.with_pyvrp import best_known

        nodes = [best_known(name, state[index : index + 1]) for index in range(len(state))]
    # From the depot (tsp: city 0) to these nodes in order.
    rows = [[0, *order] if name == "tsp" else order for order in nodes]
    # The tours of these end with an action, back to the depot; and more visits there cost nothing.
    longest = max(len(row) for row in rows) + (name in ("op", "pctsp", "spctsp"))
    actions = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    reward: Tensor = environment.env.get_reward(state, actions, check_solution=True)
    return Optima(reward.double(), method, exact=method == "milp")


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
