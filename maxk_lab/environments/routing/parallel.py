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

from maxk_lab.environments.routing.decoding import Start, pointed

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


def is_parallel(policy: nn.Module, start: Start) -> bool:
    """Whether the decisions of `start`'s trajectories can be evaluated together.

    Not for sdvrp, whose nodes look different at every step, nor for mtsp, flp and mcp, whose
    trajectories share no encoding.
    """
    return start.shared > 0 and bool(_read(policy)) and not policy.decoder.is_dynamic_embedding


def kept(policy: nn.Module, state: TensorDict) -> TensorDict:
    """The part of a state, about to change, that `parallel_log_policy` needs."""
    return state.select(*_read(policy))


def parallel_log_policy(policy: nn.Module, start: Start, states: list[TensorDict]) -> Tensor:
    """Log-probabilities [N, T, A] of the next action in the kept states of N trajectories."""
    alone = isinstance(policy.decoder.context_embedding, FIRST_ALONE)
    parts = [states[:1], states[1:]] if alone else [states]
    return torch.cat([_together(policy, start, part) for part in parts if part]).transpose(0, 1)


def _read(policy: nn.Module) -> tuple[str, ...]:
    """The entries of a state that its decision depends on; none where they are not known."""
    for kind in type(policy.decoder.context_embedding).__mro__:
        if kind in READ:
            return (*READ[kind], "action_mask")
    return ()


def _together(policy: nn.Module, start: Start, states: list[TensorDict]) -> Tensor:
    """[T, N, A]."""
    steps, count = len(states), len(states[0])
    groups = steps * start.shared
    if groups == 1:  # RL4CO's embeddings drop a dimension of length one
        return pointed(policy, start.cache, states[0]).unsqueeze(0)
    together = TensorDict(
        {
            key: unbatchify(torch.cat([state[key] for state in states]), groups)
            for key in _read(policy)
        },
        batch_size=[steps * count // groups, groups],
    )
    return pointed(policy, start.cache, together).transpose(0, 1).reshape(steps, count, -1)
