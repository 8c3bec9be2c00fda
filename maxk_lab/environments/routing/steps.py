"""Steps of tsp and cvrp on plain dictionaries, with the values of RL4CO's own.

RL4CO's states are tensor dictionaries, whose bookkeeping costs as much as the arithmetic of a step.
Every entry of a state has a row for each of the N trajectories; a step gives those that change.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from rl4co.envs import CVRPEnv, RL4COEnvBase, TSPEnv
from torch import Tensor

Entries = dict[str, Tensor]


def _tsp(state: Entries, actions: Tensor) -> Entries:
    begun = state["i"].any()
    unvisited = state["action_mask"].scatter(1, actions.unsqueeze(1), False)
    return {
        "first_node": state["first_node"] if begun else actions,
        "current_node": actions,
        "i": state["i"] + 1,
        "action_mask": unvisited,
        "done": ~unvisited.any(1),
    }


def _cvrp(state: Entries, actions: Tensor) -> Entries:
    node = actions.unsqueeze(1)
    away = node != 0
    load = state["used_capacity"] + state["demand"].gather(1, (node - 1).clamp(min=0))
    load = load * away
    visited = state["visited"].scatter(1, node, 1)
    unvisited = visited == 0
    # The tolerance is RL4CO's.
    fits = state["demand"] + load <= state["vehicle_capacity"] + 1e-5
    customers = unvisited[:, 1:] & fits
    # Not from the depot to the depot, unless nothing else is left.
    depot = away | ~customers.any(1, keepdim=True)
    return {
        "current_node": node,
        "used_capacity": load,
        "visited": visited,
        "action_mask": torch.cat((depot, customers), 1),
        "done": ~unvisited.any(1),
    }


# By exact type: subclasses step as they please.
LEAN: dict[type[RL4COEnvBase], Callable[[Entries, Tensor], Entries]] = {
    TSPEnv: _tsp,
    CVRPEnv: _cvrp,
}
