"""The decoding loop over RL4CO's environments, the policy in it, and how actions are chosen.

RL4CO lays n trajectories of B instances out as (n b); N below is n·B, A the number of actions, T
that of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rl4co.envs import RL4COEnvBase
from rl4co.models.zoo.am.decoder import PrecomputedCache
from rl4co.utils.ops import batchify, unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.routing.decoder.pointer import Pointer, pointer_of
from maxk_lab.environments.routing.decoder.queries import Queries, projected_queries
from maxk_lab.environments.routing.walks import State, Walk, walk_of
from maxk_lab.errors import LabError

# The next actions [N] of probabilities [N, A].
Choice = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Start:
    """n trajectories per instance before their first action, and the policy that is to act.

    The states [N], what the decoder keeps of the encoding, how many trajectories share one (0:
    each has its own), the forced first actions [N], if any, and the temperature of the decisions.
    `pointer` and `queries` are the policy's decoder in fewer operations, None where it is another.
    """

    env: RL4COEnvBase
    policy: nn.Module
    state: TensorDict
    cache: PrecomputedCache
    shared: int
    first: Tensor | None
    temperature: float
    pointer: Pointer | None = None
    queries: Queries | None = None

    def walk(self) -> Walk:
        """The trajectories from here on; changes `state`."""
        # Other decoders may read a state in ways that a plain dictionary does not know.
        known = self.pointer is not None and self.queries is not None
        return (walk_of if known else Walk)(self.env, self.state)

    def query(self, state: State) -> Tensor:
        """The queries of RL4CO's decoder in states [(n b)]: [B, n, E]."""
        if self.queries is not None:
            return self.queries(state)
        if self.shared > 1:
            state = unbatchify(state, self.shared)
        return self.policy.decoder._compute_q(self.cache, state)

    def decide(self, state: State) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the next action, with gradient, and probabilities, [N, A] each.

        They are those of RL4CO's own decoder: up to rounding where `pointer` takes its place, else
        digit for digit.
        """
        if self.pointer is None:
            log_policy = self._own_log_policy(state)
            return log_policy, log_policy.detach().exp()
        decision = self.pointer.decide(self.query(state), state["action_mask"])
        return decision.log_policy, decision.policy.detach()

    def _own_log_policy(self, state: State) -> Tensor:
        decoder = self.policy.decoder
        if decoder.is_dynamic_embedding:
            return self._log_policy(*decoder(state, self.cache, self.shared))
        # Where no node's embedding changes on the way, RL4CO's decoder would still copy keys and
        # values at every step.
        if self.shared <= 1:
            return self.pointed(state)
        return self.pointed(unbatchify(state, self.shared)).transpose(0, 1).flatten(0, 1)

    def pointed(self, state: TensorDict) -> Tensor:
        """Log-probabilities [..., A] of states [...], by keys and values that stay the same."""
        decoder, cache, mask = self.policy.decoder, self.cache, state["action_mask"]
        query = decoder._compute_q(cache, state)
        keys = (cache.glimpse_key, cache.glimpse_val, cache.logit_key)
        return self._log_policy(decoder.pointer(query, *keys, mask), mask)

    def _log_policy(self, logits: Tensor, mask: Tensor) -> Tensor:
        return log_policy_of(self.policy, logits, mask, self.temperature)


@dataclass(frozen=True)
class Decoded:
    """The actions and mask [N, T] until every trajectory was done, and the last states [N].

    The mask is False where a trajectory had ended and where its action was forced: no decisions.
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

    Where RL4CO cannot share an encoding, every trajectory is encoded.
    """
    state = batchify(instances.clone(), n)
    # The encoder changes the state it is given.
    hidden, _ = policy.encoder(instances.clone() if shared_encoding else state.clone())
    shared = n if shared_encoding else 0
    cache = policy.decoder._precompute_cache(hidden, num_starts=shared)
    pointer = pointer_of(policy, cache, temperature)
    queries = None
    if pointer is not None:
        embedding = policy.decoder.context_embedding
        queries = projected_queries(embedding, cache.node_embeddings, cache.graph_context)
    return Start(env, policy, state, cache, shared, first, temperature, pointer, queries)


def parts_of(cache: PrecomputedCache) -> tuple[Tensor, ...]:
    """The tensors that the decoder keeps of an encoding."""
    kept = (cache.node_embeddings, cache.glimpse_key, cache.glimpse_val, cache.logit_key)
    return (*kept, *([cache.graph_context] if isinstance(cache.graph_context, Tensor) else []))


def cache_of(
    nodes: Tensor, key: Tensor, value: Tensor, logit_key: Tensor, graph: Tensor | float = 0
) -> PrecomputedCache:
    """The inverse of `parts_of`; without a graph's context the decoder adds none."""
    return PrecomputedCache(nodes, graph, key, value, logit_key)


def decode(walk: Walk, act: Callable[[State], Tensor], first: Tensor | None = None) -> Decoded:
    """Take the actions `act(state)` [N] until every trajectory is done.

    The forced ones `first` [N], if any, come before. Hands one and the same object to `act`
    throughout.
    """
    actions, decisions = [], []
    if first is not None:
        actions.append(first)
        decisions.append(torch.zeros_like(first, dtype=torch.bool))
        walk.take(first)
        if walk.state["done"].all():
            raise LabError(
                f"{walk.env.name} of this size leaves nothing to decide after the forced first "
                "action"
            )
    while not walk.state["done"].all():
        decisions.append(~walk.state["done"].reshape(-1))
        actions.append(act(walk.state))
        walk.take(actions[-1])
    return Decoded(torch.stack(actions, 1), torch.stack(decisions, 1), walk.end())


def greedily(start: Start) -> Decoded:
    """Take the most likely actions after the forced ones.

    Raises `FloatingPointError` where there are none.
    """

    def act(state: State) -> Tensor:
        return _possible(*start.decide(state)[0].max(-1), -torch.inf)

    return decode(start.walk(), act, start.first)


def log_policy_of(policy: nn.Module, logits: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Log-probabilities from the decoder's logits [..., A], −∞ where `mask` is False.

    RL4CO's `process_logits` without writing into the logits, and in the policy's own precision
    where autocast gave less. `temperature` divides the logits on top of the policy's own.
    """
    logits = logits.to(next(policy.parameters()).dtype)
    if policy.tanh_clipping > 0:
        logits = torch.tanh(logits) * policy.tanh_clipping
    return (logits.masked_fill(~mask, -torch.inf) / (policy.temperature * temperature)).log_softmax(
        -1
    )


class Race:
    """Draws actions by noise that depends on nothing but the seed and the shapes, on any device.

    An exponential race, argmax of π / q with q ~ Exp(1): on the CPU, bit for bit the draws of
    `torch.multinomial`.
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, policy: Tensor) -> Tensor:
        """Actions [N] from the probabilities of a policy [N, A].

        Raises `FloatingPointError` where these are none.
        """
        # The noise of `exponential_` in less than half the time.
        uniform = torch.rand(policy.shape, dtype=torch.float64, generator=self.generator)
        noise = uniform.neg_().log1p_().neg_().to(policy.dtype)
        noise = noise.to(policy.device, non_blocking=True)
        # The index of the maximum comes in half the time with the maximum itself.
        return _possible(*(policy / noise).max(-1), 0.0)


def _possible(highest: Tensor, actions: Tensor, impossible: float) -> Tensor:
    """The actions, unless the highest is no higher than what is impossible."""
    if not (highest > impossible).all():
        raise FloatingPointError("the policy gives no action a positive probability")
    return actions


def replayed(actions: Tensor) -> Callable[[Any], Tensor]:
    """The columns of actions [N, T] one after the other, whatever the state."""
    columns = iter(actions.unbind(1))
    return lambda _: next(columns)
