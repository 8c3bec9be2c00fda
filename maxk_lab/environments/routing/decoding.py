"""Decoding of RL4CO's environments: one loop for sampled, given and greedy actions.

The loop keeps the gradient of every decision; given actions can also be evaluated all together.
RL4CO orders n trajectories of B instances as (n b); N below is n·B, A the number of actions, T the
number of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rl4co.envs import RL4COEnvBase
from rl4co.models.nn.env_embeddings import context
from rl4co.models.zoo.am.decoder import PrecomputedCache
from rl4co.utils.ops import batchify, unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.rollouts import TokenStatistics, mapped, token_statistics
from maxk_lab.environments.routing.pointer import Decision, Pointer, pointer_of
from maxk_lab.environments.routing.problems import LEAN, Entries, check_steps
from maxk_lab.errors import LabError

# The next actions [N] of probabilities [N, A].
Choice = Callable[[Tensor], Tensor]
# RL4CO's tensor dictionary, or a plain one whose entries have the same names.
State = Any

# The entries of the state that a context embedding reads, except the mask; other embeddings cannot
# take several steps at once.
READ: dict[type[nn.Module], tuple[str, ...]] = {
    context.TSPContext: ("i", "first_node", "current_node"),
    context.VRPContext: ("current_node", "vehicle_capacity", "used_capacity"),
    context.OPContext: ("current_node", "max_length", "tour_length"),
    context.PCTSPContext: ("current_node", "prize_required", "cur_total_prize"),
    context.PDPContext: ("current_node",),
}


@dataclass(frozen=True)
class Start:
    """n trajectories per instance before their first action, and the policy.

    The fields are the states [N], the decoder's cache of the encoding, the number of instances, how
    many trajectories share an encoding (0: none), the forced first actions [N], if any, and the
    temperature of the decisions. `pointer` is a faster form of the policy's decoder, None for other
    decoders.
    """

    env: RL4COEnvBase
    policy: nn.Module
    state: TensorDict
    cache: PrecomputedCache
    instances: int
    shared: int
    first: Tensor | None
    temperature: float
    pointer: Pointer | None = None

    def decode(self, act: Callable[[State], Tensor]) -> Decoded:
        """Take the forced actions and then the actions of `act`; changes `state`."""
        # Other decoders may need RL4CO's tensor dictionary.
        on_dictionaries = self.pointer is not None and self.pointer.on_dictionaries
        return decode(self.env, self.state, act, self.instances, self.first, on_dictionaries)

    def decide(self, state: State) -> Decision:
        """Return the decision of RL4CO's decoder, with gradient, or of `pointer` instead.

        RL4CO's decoder is reproduced to the last digit, `pointer` up to rounding.
        """
        if self.pointer is not None:
            return self.pointer.decide(state)
        logits, mask = self.policy.decoder(state, self.cache, self.shared)
        log_policy = log_policy_of(self.policy, logits, mask, self.temperature)
        return Decision(log_policy, log_policy.exp())


@dataclass(frozen=True)
class Decoded:
    """The actions and mask [N, T] until every trajectory has ended, and the last states [N].

    The mask is False after the end of a trajectory and for forced actions: these are no decisions.
    """

    actions: Tensor
    mask: Tensor
    state: TensorDict


def encode(
    env: RL4COEnvBase,
    policy: nn.Module,
    instances: TensorDict,
    n: int,
    shared_encoding: bool,
    first: Tensor | None = None,
    temperature: float = 1.0,
) -> Start:
    """Encode the instances once for all their trajectories.

    If RL4CO cannot share an encoding, every trajectory is encoded.
    """
    state = batchify(instances.clone(), n)
    # The encoder changes its argument.
    hidden, _ = policy.encoder(instances.clone() if shared_encoding else state.clone())
    shared = n if shared_encoding else 0
    cache = policy.decoder._precompute_cache(hidden, num_starts=shared)
    pointer = pointer_of(policy, cache, shared, temperature)
    return Start(env, policy, state, cache, len(instances), shared, first, temperature, pointer)


def decode(
    env: RL4COEnvBase,
    start: TensorDict,
    act: Callable[[State], Tensor],
    instances: int,
    first: Tensor | None = None,
    on_dictionaries: bool = True,
) -> Decoded:
    """Take the actions `act(state)` [N] until every trajectory ends; changes `start`.

    The forced actions `first` [N], if any, come before. With `on_dictionaries`, `act` reads states
    that are plain dictionaries, which are faster; `act` then gets the same object at every step.
    Raises `LabError` with the index of an instance whose trajectories do not end.
    """
    lean = LEAN.get(type(env)) if on_dictionaries else None
    state: State = start if lean is None else dict(start.items())

    def after(action: Tensor) -> State:
        if lean is not None:
            state.update(lean(state, action))
            return state
        state.set("action", action)
        return env.step(state)["next"]

    actions, decisions = [], []
    if first is not None:
        actions.append(first)
        decisions.append(torch.zeros_like(first, dtype=torch.bool))
        state = after(first)
        if state["done"].all():
            raise LabError(
                f"{env.name} of this size leaves nothing to decide after the forced first action"
            )
    while not state["done"].all():
        check_steps(len(actions), state, instances)
        decisions.append(~state["done"].reshape(-1))
        actions.append(act(state))
        state = after(actions[-1])
    end = state if lean is None else start.update(state)
    return Decoded(torch.stack(actions, 1), torch.stack(decisions, 1), end)


def step_by_step(start: Start, choose: Choice) -> tuple[Decoded, TokenStatistics]:
    """Return the actions of `choose` and the statistics [N, T] of their decisions, with gradient.

    Without gradient, a distribution [N, A] is freed after use.
    """
    decisions: list[Decision] = []
    steps: list[TokenStatistics] = []

    def act(state: State) -> Tensor:
        decision = start.decide(state)
        action = choose(decision.policy.detach())
        deciding = ~state["done"].reshape(-1)
        steps.append(token_statistics(decision.log_policy, action, deciding, decision.policy))
        if start.pointer is not None and torch.is_grad_enabled():
            decisions.append(decision)
        return action

    decoded = start.decode(act)
    names = ("log_probs", "entropy", "logit_proxy", "mask")
    tokens = TokenStatistics(
        *(torch.stack([getattr(step, name) for step in steps], 1) for name in names)
    )
    if start.pointer is not None and decisions:
        actions = decoded.actions[:, -len(decisions) :]
        tokens = start.pointer.with_gradient(decisions, actions, tokens)
    if start.first is None:
        return decoded, tokens
    # A forced first action is no decision: its statistics are zero, as after the end.
    return decoded, mapped(lambda values: nn.functional.pad(values, (1, 0)), tokens)


def all_steps_together(start: Start, actions: Tensor) -> Tensor:
    """Return log π [N] of given actions [N, T], by one or two calls of RL4CO's decoder.

    The states along given actions need no policy, so they are computed first. The decoder's
    dimension for trajectories with a shared encoding then holds all their steps. It has a gradient,
    needs `can_be_together`, and equals `step_by_step` up to rounding.
    """
    entries, states = (*_read(start), "action_mask"), []
    replay = replayed(actions)

    def act(state: State) -> Tensor:
        states.append({key: state[key] for key in entries})
        return replay(state)

    with torch.no_grad():
        walked = decode(start.env, start.state, act, start.instances, start.first)
        mask = walked.mask[:, -len(states) :]
    # tsp's embedding looks at one state to see if all have a first city.
    alone = isinstance(start.policy.decoder.context_embedding, context.TSPContext)
    runs = [states[:1], states[1:]] if alone else [states]
    log_policy = torch.cat([_together(start, run) for run in runs if run], 1)
    chosen = log_policy.gather(-1, actions[:, : len(states)].unsqueeze(-1)).squeeze(-1)
    return chosen.masked_fill(~mask, 0.0).sum(1)


def can_be_together(start: Start) -> bool:
    """Return whether the decisions of `start`'s trajectories can be evaluated together.

    Exceptions are sdvrp (its node embeddings change at every step), smtwtp (its first state has
    other shapes), and trajectories without a shared encoding.
    """
    return start.shared > 0 and bool(_read(start)) and not start.policy.decoder.is_dynamic_embedding


def greedily(start: Start) -> Decoded:
    """Take the most likely actions after the forced ones.

    Raises `FloatingPointError` if no action is possible.
    """

    def act(state: State) -> Tensor:
        return _possible(*start.decide(state).log_policy.max(-1), -torch.inf)

    return start.decode(act)


def log_policy_of(policy: nn.Module, logits: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Return log-probabilities from the decoder's logits [..., A], −∞ where `mask` is False.

    It is RL4CO's `process_logits` without writing into the logits. `temperature` divides the logits
    in addition to the policy's own temperature.
    """
    if policy.tanh_clipping > 0:
        logits = torch.tanh(logits) * policy.tanh_clipping
    allowed = logits.masked_fill(~mask, -torch.inf)
    return (allowed / (policy.temperature * temperature)).log_softmax(-1)


class Race:
    """Samples actions by noise that depends only on the seed and the shapes, on any device.

    An exponential race, argmax of π / q with q ~ Exp(1). On the CPU it equals `torch.multinomial`
    bit for bit.
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, policy: Tensor) -> Tensor:
        """Return actions [N] sampled from the probabilities [N, A] of a policy.

        Raises `FloatingPointError` for invalid probabilities.
        """
        # The noise of `exponential_` in less than half the time.
        uniform = torch.rand(policy.shape, dtype=torch.float64, generator=self.generator)
        noise = uniform.neg_().log1p_().neg_().to(policy.dtype)
        noise = noise.to(policy.device, non_blocking=True)
        # The maximum together with its index takes half the time of the index alone.
        return _possible(*(policy / noise).max(-1), 0.0)


def replayed(actions: Tensor) -> Callable[[Any], Tensor]:
    """Return a function that gives the columns of actions [N, T] in turn."""
    columns = iter(actions.unbind(1))
    return lambda _: next(columns)


def _possible(highest: Tensor, actions: Tensor, impossible: float) -> Tensor:
    """Return the actions, unless the highest value is impossible."""
    if not (highest > impossible).all():
        raise FloatingPointError("the policy gives no action a positive probability")
    return actions


def _read(start: Start) -> tuple[str, ...]:
    """Return the entries that the decoder's context reads; none if they are not listed."""
    kinds = type(start.policy.decoder.context_embedding).__mro__
    return next((READ[kind] for kind in kinds if kind in READ), ())


def _together(start: Start, states: list[Entries]) -> Tensor:
    """Return log-probabilities [N, T, A] of the next action in T states of N trajectories."""
    steps, count = len(states), len(states[0]["action_mask"])
    entries = {key: torch.cat([state[key] for state in states]) for key in states[0]}
    groups = steps * start.shared
    together = TensorDict(entries, batch_size=steps * count)
    if groups > 1:  # RL4CO's embeddings drop a dimension of length one
        together = unbatchify(together, groups)
    decoder, cache, mask = start.policy.decoder, start.cache, together["action_mask"]
    # RL4CO's decoder without copies of constant keys and values.
    logits = decoder.pointer(
        *(decoder._compute_q(cache, together), cache.glimpse_key, cache.glimpse_val),
        *(cache.logit_key, mask),
    )
    log_policy = log_policy_of(start.policy, logits, mask, start.temperature)
    if groups == 1:
        return log_policy.unsqueeze(1)
    return log_policy.transpose(0, 1).reshape(steps, count, -1).transpose(0, 1)
