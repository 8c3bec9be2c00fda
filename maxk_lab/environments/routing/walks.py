"""The states that actions lead through: by RL4CO's own steps, or by leaner ones of the same values.

RL4CO's states are tensor dictionaries, whose bookkeeping costs as much as the arithmetic of a step
of tsp or cvrp. Every entry of a state has a row for each of the N trajectories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rl4co.envs import CVRPEnv, RL4COEnvBase, TSPEnv
from tensordict import TensorDict
from torch import Tensor

Entries = dict[str, Tensor]
# RL4CO's tensor dictionary or a plain one, whose entries have the same names.
State = Any


class Walk:
    """Trajectories under way, by the environment's own steps, which change the given state."""

    def __init__(self, env: RL4COEnvBase, start: TensorDict) -> None:
        self.env = env
        self.state: State = start

    def take(self, actions: Tensor) -> None:
        """Take one action [N] each; `state` is then the next."""
        self.state.set("action", actions)
        self.state = self.env.step(self.state)["next"]

    def end(self) -> TensorDict:
        """The state as RL4CO has it, after the last action."""
        return self.state


class LeanWalk(Walk):
    """The same in environments of `LEAN`; the state is a plain dictionary until the end."""

    def __init__(self, env: RL4COEnvBase, start: TensorDict) -> None:
        super().__init__(env, start)
        self.start = start
        self.state = dict(start.items())

    def take(self, actions: Tensor) -> None:
        self.state.update(LEAN[type(self.env)](self.state, actions))

    def end(self) -> TensorDict:
        return self.start.update(self.state)


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


# Subclasses step as they please.
LEAN: dict[type[RL4COEnvBase], Callable[[Entries, Tensor], Entries]] = {
    TSPEnv: _tsp,
    CVRPEnv: _cvrp,
}


def walk_of(env: RL4COEnvBase, start: TensorDict) -> Walk:
    """The leanest walk of an environment."""
    return (LeanWalk if type(env) in LEAN else Walk)(env, start)
