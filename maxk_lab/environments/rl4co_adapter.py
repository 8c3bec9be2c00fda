"""RL4CO environments with the attention policy: truly i.i.d. sampling, teacher forcing and enumeration.

The only file that knows RL4CO's quirks. RL4CO lays n trajectories of B instances out as (n b); everything here leaves as [B, n].
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

# RL4CO imports matplotlib, which complains on stderr when it cannot write its cache.
os.environ.setdefault("MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), "maxk-lab-matplotlib"))

import torch
from rl4co.envs import get_env
from rl4co.models.zoo.am.policy import AttentionModelPolicy
from rl4co.utils.decoding import process_logits
from rl4co.utils.ops import batchify, unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.catalogue import EnvironmentRow
from maxk_lab.environments.decisions import logit_proxy, token_statistics
from maxk_lab.environments.protocol import Rollouts, TokenStatistics
from maxk_lab.environments.rng import isolated_rng
from maxk_lab.errors import LabError

MAX_TRAJECTORIES = 50_000


class RL4COEnvironment:
    """Any RL4CO environment whose trajectories the attention model samples i.i.d.; its catalogue row names it."""

    def __init__(self, row: EnvironmentRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
        self.name = row.name
        self.shared_encoding = row.shared_encoding
        self.policy_parameters = {key: value for key, value in policy.items() if key != "dtype"}
        self.dtype: torch.dtype = getattr(torch, policy["dtype"])
        self.enumerable = row.enumerable(parameters)
        generator = {key: value for key, value in parameters.items() if key != "name"}
        with isolated_rng(0):  # RL4CO reseeds the global generator when an environment is made
            self.env = get_env(row.name, generator_params=generator, check_solution=False)

    def policy(self, seed: int) -> nn.Module:
        """The attention model with instance normalisation: batch normalisation would couple the instances' scores."""
        with isolated_rng(seed):
            policy = AttentionModelPolicy(
                env_name=self.name,
                normalization="instance",
                use_graph_context=False,
                **self.policy_parameters,
            )
        return policy.to(self.dtype).eval()

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> TensorDict:
        with isolated_rng(seed):  # RL4CO's generators take no generator of their own
            state = self.env.reset(batch_size=[count])
        return state.apply(lambda x: x.to(self.dtype) if x.is_floating_point() else x)

    def select(self, instances: TensorDict, index: int) -> TensorDict:
        return instances[index : index + 1]

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: TensorDict, n: int, *, seed: int) -> Rollouts:
        state, cache, shared = self._start(policy, instances, n)
        actions, chosen, entropy, proxy, running = [], [], [], [], []
        with isolated_rng(seed):
            while not state["done"].all():
                running.append(~state["done"].reshape(-1))
                log_policy = _log_policy(policy, state, cache, shared)
                probabilities = log_policy.exp()
                action = torch.multinomial(probabilities, 1).squeeze(1)
                chosen.append(log_policy.gather(1, action.unsqueeze(1)).squeeze(1))
                entropy.append(-torch.special.xlogy(probabilities, probabilities).sum(-1))
                proxy.append(logit_proxy(log_policy, action))
                actions.append(action)
                state.set("action", action)
                state = self.env.step(state)["next"]
        flat_actions = torch.stack(actions, 1)
        alive = torch.stack(running, 1)

        def over_steps(values: list[Tensor]) -> Tensor:
            return _by_instance((torch.stack(values, 1) * alive).sum(1), n)

        return Rollouts(
            rewards=_by_instance(self.env.get_reward(state, flat_actions), n),
            log_probs=over_steps(chosen),
            actions=_by_instance(flat_actions, n),
            lengths=_by_instance(alive.sum(1), n),
            logit_proxy=over_steps(proxy),
            entropy=over_steps(entropy),
        )

    def log_probs(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> Tensor:
        n = actions.shape[1]
        out = policy(
            # The policy changes the state it is given.
            instances.clone() if self.shared_encoding else batchify(instances.clone(), n),
            self.env,
            phase="train",
            actions=_flat(actions),
            num_samples=n if self.shared_encoding and n > 1 else None,
            calc_reward=True,
            return_actions=False,
            return_sum_log_likelihood=False,
        )
        return _by_instance(out["log_likelihood"].sum(1), n)

    def tokens(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> TokenStatistics:
        n = actions.shape[1]
        forced = _flat(actions)
        state, cache, shared = self._start(policy, instances, n)
        steps, running = [], []
        while not state["done"].all():
            running.append(~state["done"].reshape(-1))
            steps.append(_log_policy(policy, state, cache, shared))
            state.set("action", forced[:, len(steps) - 1])
            state = self.env.step(state)["next"]
        taken = len(steps)
        statistics = token_statistics(torch.stack(steps, 1), forced[:, :taken], torch.stack(running, 1))

        def widened(values: Tensor) -> Tensor:
            return _by_instance(torch.nn.functional.pad(values, (0, actions.shape[2] - taken)), n)

        return TokenStatistics(
            log_probs=widened(statistics.log_probs),
            entropy=widened(statistics.entropy),
            logit_proxy=widened(statistics.logit_proxy),
            mask=widened(statistics.mask),
        )

    def _start(self, policy: nn.Module, instances: TensorDict, n: int) -> tuple[TensorDict, Any, int]:
        """The first state of n trajectories per instance, the decoder's cache, and how many share one encoding (0: none)."""
        state = batchify(instances.clone(), n)
        hidden, _ = policy.encoder(instances.clone() if self.shared_encoding else state.clone())
        shared = n if self.shared_encoding else 0
        return state, policy.decoder._precompute_cache(hidden, num_starts=shared), shared

    def enumerate(self, instances: TensorDict) -> tuple[Tensor, Tensor]:
        """Breadth-first expansion of the environment's action mask; finished trajectories are padded with action 0."""
        if not self.enumerable:
            raise LabError(f"{self.name} of this size has too many trajectories to enumerate")
        state = instances.clone()
        actions = torch.empty(1, 0, dtype=torch.long)
        while not state["done"].all():
            mask = state["action_mask"].clone()
            finished = state["done"].reshape(-1)
            mask[finished] = False
            mask[finished, 0] = True
            rows, action = mask.nonzero(as_tuple=True)
            if len(rows) > MAX_TRAJECTORIES:
                raise LabError(f"{self.name} of this size has more than {MAX_TRAJECTORIES} trajectories")
            actions = torch.cat([actions[rows], action.unsqueeze(1)], 1)
            state = state[rows]
            state.set("action", action)
            state = self.env.step(state)["next"]
        return actions, self.env.get_reward(state, actions)


def _log_policy(policy: nn.Module, state: TensorDict, cache: Any, shared: int) -> Tensor:
    """Log-probabilities of the next action [(n b), actions]."""
    logits, mask = policy.decoder(state, cache, shared)
    return process_logits(logits, mask, temperature=policy.temperature, tanh_clipping=policy.tanh_clipping)


def _by_instance(flat: Tensor, n: int) -> Tensor:
    """[(n b), ...] → [b, n, ...]."""
    return unbatchify(flat, n)


def _flat(actions: Tensor) -> Tensor:
    """[b, n, T] → [(n b), T]."""
    return actions.transpose(0, 1).reshape(-1, actions.shape[-1])
