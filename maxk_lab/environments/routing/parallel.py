"""Parallel teacher forcing: all decisions of given trajectories in one or two decoder calls.

The states that given actions lead through need no policy, so they are found first. The decoder's
dimension for the n trajectories that share an encoding then takes all (t n) of them.
"""

from __future__ import annotations

import torch
from rl4co.models.nn.env_embeddings import context
from rl4co.utils.ops import unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.routing.decoding import Start
from maxk_lab.environments.routing.walks import Entries, State

# The entries of the state that a context embedding reads, but for the mask; those left out cannot
# take several steps at once.
READ: dict[type[nn.Module], tuple[str, ...]] = {
    context.TSPContext: ("i", "first_node", "current_node"),
    context.VRPContext: ("current_node", "vehicle_capacity", "used_capacity"),
    context.VRPTWContext: ("current_node", "vehicle_capacity", "used_capacity", "current_time"),
    context.OPContext: ("current_node", "max_length", "tour_length"),
    context.PCTSPContext: ("current_node", "prize_required", "cur_total_prize"),
    context.PDPContext: ("current_node",),
    context.SMTWTPContext: ("current_job", "current_time"),
    context.MTVRPContext: (
        *("current_node", "vehicle_capacity", "used_capacity_linehaul", "used_capacity_backhaul"),
        *("current_time", "current_route_length", "open_route"),
    ),
}
# tsp asks one state for all of them whether there is a first city yet, smtwtp's first state has
# shapes of its own.
FIRST_ALONE = (context.TSPContext, context.SMTWTPContext)


def is_parallel(start: Start) -> bool:
    """Whether the decisions of `start`'s trajectories can be evaluated together.

    Not for sdvrp, whose nodes look different at every step, nor for mtsp, flp and mcp, whose
    trajectories share no encoding.
    """
    return start.shared > 0 and bool(_read(start)) and not start.policy.decoder.is_dynamic_embedding


def kept(start: Start, state: State) -> Entries:
    """The part of a state, about to change, that `parallel_log_policy` needs."""
    return {key: state[key] for key in _read(start)}


def parallel_log_policy(start: Start, states: list[Entries]) -> Tensor:
    """Log-probabilities [N, T, A] of the next action in the kept states of N trajectories."""
    alone = isinstance(start.policy.decoder.context_embedding, FIRST_ALONE)
    parts = [states[:1], states[1:]] if alone else [states]
    return torch.cat([_together(start, part) for part in parts if part]).transpose(0, 1)


def _read(start: Start) -> tuple[str, ...]:
    """The entries of a state that its decision depends on; none where they are not known."""
    kinds = type(start.policy.decoder.context_embedding).__mro__
    return next(((*READ[kind], "action_mask") for kind in kinds if kind in READ), ())


def _together(start: Start, states: list[Entries]) -> Tensor:
    """[T, N, A]."""
    steps, count = len(states), len(states[0]["action_mask"])
    entries = {key: torch.cat([state[key] for state in states]) for key in states[0]}
    groups = steps * start.shared
    if start.pointer is not None and start.queries is not None:
        mask = entries["action_mask"]
        return start.pointer.decide(start.queries(entries), mask).log_policy.view(steps, count, -1)
    if groups == 1:  # RL4CO's embeddings drop a dimension of length one
        return start.pointed(TensorDict(entries, batch_size=count)).unsqueeze(0)
    together = TensorDict(
        {key: unbatchify(values, groups) for key, values in entries.items()},
        batch_size=[steps * count // groups, groups],
    )
    return start.pointed(together).transpose(0, 1).reshape(steps, count, -1)
