"""Passes over RL4CO's trajectories, with the statistics of every decision.

Actions are sampled or given, steps taken one by one or in parallel. N trajectories of at most T
actions, as RL4CO lays them out; the statistics are [N, T] each.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from maxk_lab.environments.rollouts import (
    TokenStatistics,
    decision_statistics,
    mapped,
    token_statistics,
)
from maxk_lab.environments.routing.decoder.backward import Made, differentiable
from maxk_lab.environments.routing.decoder.pointer import Pointer
from maxk_lab.environments.routing.decoding import Choice, Decoded, Start, decode
from maxk_lab.environments.routing.parallel import is_parallel, kept, parallel_log_policy
from maxk_lab.environments.routing.walks import Entries, State

Pass = tuple[Decoded, TokenStatistics]


# Where a step with gradient through the decoding loop is faster than with parallel teacher forcing:
# on a CPU, by the timings of benchmarks/bench_decoding.py. Nothing else has been timed.
LOOP_DEVICES = ("cpu",)


def sampled(start: Start, choose: Choice) -> Pass:
    """The actions of `choose` and their decisions with gradient, in one pass of the policy.

    Decoders that `recorded` does not know decode step by step on `LOOP_DEVICES`, elsewhere all
    steps together where that is exact.
    """
    if start.pointer is not None:
        return recorded(start, start.pointer, choose)
    if _loops(start) or not is_parallel(start):
        return sequential(start, choose)
    return parallel(start, lambda state: choose(start.decide(state)[1]))


def taught(start: Start, choose: Choice) -> Pass:
    """The decisions that lead to given actions, with gradient where there is any.

    All steps together where that is exact, but on `LOOP_DEVICES` as `recorded`.
    """
    if start.pointer is not None and _loops(start):
        if torch.is_grad_enabled():
            return recorded(start, start.pointer, choose)
        return unrecorded(start, choose)
    return (parallel if is_parallel(start) else sequential)(start, choose)


def sequential(start: Start, choose: Choice) -> Pass:
    """The decoding loop, with gradient through every step of it."""
    log_policies: list[Tensor] = []

    def act(state: State) -> Tensor:
        log_policy, policy = start.decide(state)
        log_policies.append(log_policy)
        return choose(policy)

    decoded = decode(start.walk(), act, start.first)
    return decoded, _statistics(torch.stack(log_policies, 1), decoded)


def parallel(start: Start, act: Callable[[State], Tensor]) -> Pass:
    """The actions `act(state)` [N] without gradient, then all their decisions together, with it.

    Only where `is_parallel`. The values of `sequential` up to rounding.
    """
    states: list[Entries] = []

    def noted(state: State) -> Tensor:
        states.append(kept(start, state))
        return act(state)

    with torch.no_grad():
        decoded = decode(start.walk(), noted, start.first)
    return decoded, _statistics(parallel_log_policy(start, states), decoded)


@torch.no_grad()
def unrecorded(start: Start, choose: Choice) -> Pass:
    """The values of `sequential`, digit for digit, without gradient.

    No distribution [N, A] is kept any longer than needed.
    """
    steps: list[TokenStatistics] = []

    def act(state: State) -> Tensor:
        log_policy, policy = start.decide(state)
        action = choose(policy)
        steps.append(decision_statistics(log_policy, policy, action, _deciding(state)))
        return action

    decoded = decode(start.walk(), act, start.first)
    return decoded, _after_forced(_columns(steps), decoded)


def recorded(start: Start, pointer: Pointer, choose: Choice) -> Pass:
    """The values of `sequential`, digit for digit, and its gradient up to rounding.

    `pointer` is that of `start`. The loop itself has no gradient but for its queries, and keeps
    what the backward pass needs of each decision.
    """
    made: list[Made] = []
    steps: list[TokenStatistics] = []

    def act(state: State) -> Tensor:
        query = start.query(state)
        with torch.no_grad():
            decision = pointer.decide(query, state["action_mask"])
            log_policy, policy = decision.log_policy, decision.policy
            action = choose(policy)
            steps.append(decision_statistics(log_policy, policy, action, _deciding(state)))
        made.append(Made(decision, action))
        return action

    decoded = decode(start.walk(), act, start.first)
    tokens = differentiable(pointer, made, _columns(steps))
    return decoded, _after_forced(tokens, decoded)


def _loops(start: Start) -> bool:
    return start.cache.logit_key.device.type in LOOP_DEVICES


def _deciding(state: State) -> Tensor:
    """Whether the trajectories [N] are not at their end."""
    return ~state["done"].reshape(-1)


def _columns(steps: list[TokenStatistics]) -> TokenStatistics:
    """The statistics [N, T] of T steps [N]."""
    columns = zip(*(vars(step).values() for step in steps), strict=True)
    return TokenStatistics(*(torch.stack(column, 1) for column in columns))


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
