"""Passes over RL4CO's trajectories, with the statistics of every decision.

Actions are sampled or given, steps taken one by one or in parallel. N trajectories of at most T
actions, as RL4CO lays them out; the statistics are [N, T] each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import torch
from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.rollouts import TokenStatistics, token_statistics
from maxk_lab.environments.routing.decoding import Decoded, Start, decode, next_log_policy
from maxk_lab.environments.routing.parallel import kept, parallel_log_policy

# The next actions [N] of log-probabilities [N, A].
Choice = Callable[[Tensor], Tensor]
Pass = tuple[Decoded, TokenStatistics]


def sequential(
    env: RL4COEnvBase, policy: nn.Module, start: Start, choose: Choice, first: Tensor | None = None
) -> Pass:
    """The decoding loop, with gradient through every step of it."""
    log_policies: list[Tensor] = []

    def act(state: TensorDict) -> Tensor:
        log_policies.append(next_log_policy(policy, start, state))
        return choose(log_policies[-1])

    decoded = decode(env, start.state, act, first)
    return decoded, _statistics(torch.stack(log_policies, 1), decoded)


def parallel(
    env: RL4COEnvBase,
    policy: nn.Module,
    start: Start,
    act: Callable[[TensorDict], Tensor],
    first: Tensor | None = None,
) -> Pass:
    """The actions `act(state)` [N] without gradient, then all their decisions together, with it.

    Only where `is_parallel`. The values of `sequential` up to rounding.
    """
    states: list[TensorDict] = []

    def noted(state: TensorDict) -> Tensor:
        states.append(kept(policy, state))
        return act(state)

    with torch.no_grad():
        decoded = decode(env, start.state, noted, first)
    return decoded, _statistics(parallel_log_policy(policy, start, states), decoded)


@torch.no_grad()
def unrecorded(
    env: RL4COEnvBase, policy: nn.Module, start: Start, choose: Choice, first: Tensor | None = None
) -> Pass:
    """The values of `sequential`, digit for digit, without gradient.

    No distribution [N, A] is kept any longer than needed.
    """
    steps: list[TokenStatistics] = []

    def act(state: TensorDict) -> Tensor:
        log_policy = next_log_policy(policy, start, state)
        action = choose(log_policy)
        steps.append(token_statistics(log_policy, action, ~state["done"].reshape(-1)))
        return action

    decoded = decode(env, start.state, act, first)
    stacked = {
        f.name: torch.stack([getattr(s, f.name) for s in steps], 1) for f in fields(TokenStatistics)
    }
    return decoded, _after_forced(TokenStatistics(**stacked), decoded)


def mapped(function: Callable[[Tensor], Tensor], tokens: TokenStatistics) -> TokenStatistics:
    """`function` of each field."""
    return TokenStatistics(
        **{f.name: function(getattr(tokens, f.name)) for f in fields(TokenStatistics)}
    )


def _statistics(log_policy: Tensor, decoded: Decoded) -> TokenStatistics:
    steps = log_policy.shape[1]
    tokens = token_statistics(log_policy, decoded.actions[:, -steps:], decoded.mask[:, -steps:])
    return _after_forced(tokens, decoded)


def _after_forced(tokens: TokenStatistics, decoded: Decoded) -> TokenStatistics:
    """A forced first action is no decision: its statistics are zero, as after the end."""
    missing = decoded.actions.shape[1] - tokens.mask.shape[1]
    return (
        mapped(lambda values: nn.functional.pad(values, (missing, 0)), tokens)
        if missing
        else tokens
    )
