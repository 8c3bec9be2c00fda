"""Passes over RL4CO's trajectories, with the statistics of every decision.

Actions are sampled or given, steps taken one by one or in parallel. N trajectories of at most T
actions, as RL4CO lays them out; the statistics are [N, T] each.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.rollouts import TokenStatistics, mapped, token_statistics
from maxk_lab.environments.routing.decoding import Choice, Decoded, Start, decode
from maxk_lab.environments.routing.parallel import kept, parallel_log_policy

Pass = tuple[Decoded, TokenStatistics]


def sequential(start: Start, choose: Choice) -> Pass:
    """The decoding loop, with gradient through every step of it."""
    log_policies: list[Tensor] = []

    def act(state: TensorDict) -> Tensor:
        log_policies.append(start.log_policy(state))
        return choose(log_policies[-1])

    decoded = decode(start.env, start.state, act, start.first)
    return decoded, _statistics(torch.stack(log_policies, 1), decoded)


def parallel(start: Start, act: Callable[[TensorDict], Tensor]) -> Pass:
    """The actions `act(state)` [N] without gradient, then all their decisions together, with it.

    Only where `is_parallel`. The values of `sequential` up to rounding.
    """
    states: list[TensorDict] = []

    def noted(state: TensorDict) -> Tensor:
        states.append(kept(start, state))
        return act(state)

    with torch.no_grad():
        decoded = decode(start.env, start.state, noted, start.first)
    return decoded, _statistics(parallel_log_policy(start, states), decoded)


@torch.no_grad()
def unrecorded(start: Start, choose: Choice) -> Pass:
    """The values of `sequential`, digit for digit, without gradient.

    No distribution [N, A] is kept any longer than needed.
    """
    steps: list[TokenStatistics] = []

    def act(state: TensorDict) -> Tensor:
        log_policy = start.log_policy(state)
        action = choose(log_policy)
        steps.append(token_statistics(log_policy, action, ~state["done"].reshape(-1)))
        return action

    decoded = decode(start.env, start.state, act, start.first)
    columns = zip(*(vars(step).values() for step in steps), strict=True)
    tokens = TokenStatistics(*(torch.stack(column, 1) for column in columns))
    return decoded, _after_forced(tokens, decoded)


def _statistics(log_policy: Tensor, decoded: Decoded) -> TokenStatistics:
    steps = log_policy.shape[1]
    tokens = token_statistics(log_policy, decoded.actions[:, -steps:], decoded.mask[:, -steps:])
    return _after_forced(tokens, decoded)


def _after_forced(tokens: TokenStatistics, decoded: Decoded) -> TokenStatistics:
    """A forced first action is no decision: its statistics are zero, as after the end."""
    missing = decoded.actions.shape[1] - tokens.mask.shape[1]
    if not missing:
        return tokens
    return mapped(lambda values: nn.functional.pad(values, (missing, 0)), tokens)
