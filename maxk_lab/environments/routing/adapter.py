"""RL4CO's environments: i.i.d. sampling, teacher forcing, greedy decoding, enumeration.

RL4CO orders n trajectories of B instances as (n b); results here are [B, n].
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Before RL4CO, because it prepares the import.
from maxk_lab.environments.routing import problems  # isort: skip

import torch
from rl4co.models.zoo.am.decoder import PrecomputedCache
from rl4co.utils.ops import batchify, unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped
from maxk_lab.environments.routing import decoding, files, optima
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy

ROW_NAMES = {row.name for row in ROUTING}


class RL4COEnvironment:
    """Any environment of RL4CO whose trajectories a policy samples one node at a time.

    Its catalogue row names it. `forced` says whether first actions are forced.
    """

    def __init__(
        self, row: EnvironmentRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.row = row
        self.name = row.name
        self.forced = False
        self.temperature = 1.0
        self.policy_parameters = dict(policy)
        self.dtype: torch.dtype = getattr(torch, policy.get("dtype", "float32"))
        self.enumerable = row.enumerable(parameters)
        self.env = problems.make_rl4co(row.name, parameters)
        # Embeddings of other problems, such as flp, cannot take n trajectories of an instance.
        self.shared_encoding = self.env.name in ROW_NAMES
        self.foreign = bool(parameters.get("env"))

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(self.policy_parameters, seed, environment=self.env.name)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> TensorDict:
        drawn = problems.draw_instances(self.env, count, seed, self.dtype)
        # Only the user knows the meaning of a user environment's entries.
        return drawn if self.foreign else problems.check_feasible(drawn)

    def place(self, instances: TensorDict, device: torch.device | str) -> TensorDict:
        return instances.to(device)

    def forced_starts(self) -> RL4COEnvironment:
        if "multistart" not in self.row.supports:
            raise LabError(
                f"{self.name} has no forced starts: not every one of RL4CO's would be feasible"
            )
        environment = copy.copy(self)
        environment.forced = True
        environment.enumerable = False
        return environment

    def tempered(self, temperature: float) -> RL4COEnvironment:
        environment = copy.copy(self)
        environment.temperature = self.temperature * temperature
        return environment

    def start_count(self, instances: TensorDict) -> int:
        return len(problems.starts(self.env, instances))

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: TensorDict, n: int, *, seed: int) -> Rollouts:
        return self.rollout_with_tokens(policy, instances, n, seed=seed)[0]

    def rollout_with_tokens(
        self, policy: nn.Module, instances: TensorDict, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        start = self._started(policy, instances, n)
        decoded, tokens = decoding.step_by_step(start, decoding.Race(seed))
        with torch.no_grad():
            rewards = self.env.get_reward(decoded.state, decoded.actions)
            flat = Rollouts.from_tokens(tokens, actions=decoded.actions, rewards=rewards)
            rollouts = mapped(lambda values: unbatchify(values.detach(), n), flat)
        return rollouts, mapped(lambda values: unbatchify(values, n), tokens)

    def log_probs(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> Tensor:
        return self._taught(policy, instances, actions).log_probs.sum(-1)

    def tokens(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> TokenStatistics:
        tokens = self._taught(policy, instances, actions)
        beyond = (0, actions.shape[2] - tokens.mask.shape[2])
        return mapped(lambda values: nn.functional.pad(values, beyond), tokens)

    def encoding(self, policy: nn.Module, instances: TensorDict) -> tuple[Tensor, ...]:
        cache = self._start(policy, instances, 1).cache
        parts = (cache.node_embeddings, cache.glimpse_key, cache.glimpse_val, cache.logit_key)
        graph = cache.graph_context  # 0 if the policy has none
        return (*parts, graph) if isinstance(graph, Tensor) else parts

    def trajectory_inputs(self, instances: TensorDict, actions: Tensor) -> tuple[Any, ...]:
        count, n = actions.shape[:2]
        owner = torch.arange(count, device=actions.device).repeat_interleave(n)
        return instances[owner], actions.flatten(0, 1)

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Any
    ) -> Tensor:
        (nodes, *keys), (state, actions) = encoding, rows
        cache = PrecomputedCache(nodes, keys[3] if len(keys) > 3 else 0, *keys[:3])
        first, rest = self._forced_and_chosen(actions)
        shared = int(self.shared_encoding)
        start = decoding.Start(
            *(self.env, policy, state.clone(), cache, len(state), shared, first),
            self.temperature,
        )
        if decoding.can_be_together(start):
            return decoding.all_steps_together(start, rest)
        return decoding.step_by_step(start, decoding.replayed(rest))[1].log_probs.sum(1)

    @torch.no_grad()
    def greedy(
        self,
        policy: nn.Module,
        instances: TensorDict,
        *,
        augmented: bool = False,
        multistart: bool = False,
    ) -> Tensor:
        environment = self.forced_starts() if multistart else self
        n = self.start_count(instances) if multistart else 1
        if augmented:
            return environment._best_of_copies(policy, instances, n)
        decoded = decoding.greedily(environment._started(policy, instances, n))
        return unbatchify(self.env.get_reward(decoded.state, decoded.actions), n).amax(1)

    def read_instances(self, path: str | Path) -> TensorDict:
        return files.read_instances(self.env, path, self.dtype)

    write_instances = staticmethod(files.write_instances)
    instances_hash = staticmethod(files.instances_hash)
    optimum_method = optima.optimum_method
    optima = optima.best_rewards

    def enumerate(self, instances: TensorDict) -> tuple[Tensor, Tensor]:
        """Breadth-first expansion of the environment's action mask.

        Finished trajectories are padded with action 0.
        """
        # Instances of a file may be larger than those of the settings.
        size = instances["action_mask"].shape[-1] - (self.name != "tsp")
        if not self.enumerable or size > self.row.enumerable_up_to:
            raise LabError(f"{self.name} of this size has too many trajectories to enumerate")
        state = instances.clone()
        actions = torch.empty(1, 0, dtype=torch.long, device=state["action_mask"].device)
        while not state["done"].all():
            problems.check_steps(actions.shape[1], state, 1)
            mask = state["action_mask"].clone()
            finished = state["done"].reshape(-1)
            mask[finished] = False
            mask[finished, 0] = True
            rows, action = mask.nonzero(as_tuple=True)
            actions = torch.cat([actions[rows], action.unsqueeze(1)], 1)
            state = state[rows]
            state.set("action", action)
            state = self.env.step(state)["next"]
        return actions, self.env.get_reward(state, actions)

    def _taught(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> TokenStatistics:
        """Return the statistics of actions [B, n, T] until all trajectories end, [B, n, steps]."""
        n = actions.shape[1]
        first, rest = self._forced_and_chosen(actions.transpose(0, 1).flatten(0, 1))
        start = self._start(policy, instances, n, first)
        tokens = decoding.step_by_step(start, decoding.replayed(rest))[1]
        return mapped(lambda values: unbatchify(values, n), tokens)

    def _best_of_copies(self, policy: nn.Module, instances: TensorDict, n: int) -> Tensor:
        """Return the best of n greedy solutions of each symmetric copy, valued on the instance."""
        copies, count = problems.symmetric_copies(self.env, instances), n * problems.DIHEDRAL
        actions = decoding.greedily(self._started(policy, copies, n)).actions
        # [(n 8 b)], like the instances: b varies fastest.
        start = batchify(instances.clone(), count)
        replay = decoding.replayed(actions)
        original = decoding.decode(self.env, start, replay, len(instances))
        return unbatchify(self.env.get_reward(original.state, original.actions), count).amax(1)

    def _forced_and_chosen(self, actions: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return the forced first actions [N], if any, and the other actions of [N, T]."""
        return (actions[:, 0], actions[:, 1:]) if self.forced else (None, actions)

    def _started(self, policy: nn.Module, instances: TensorDict, n: int) -> decoding.Start:
        """Return the start of n trajectories with their forced first actions, if any."""
        first = problems.start_nodes(self.env, instances, n) if self.forced else None
        return self._start(policy, instances, n, first)

    def _start(
        self, policy: nn.Module, instances: TensorDict, n: int, first: Tensor | None = None
    ) -> decoding.Start:
        how = self.shared_encoding, first, self.temperature
        return decoding.encode(self.env, policy, instances, n, *how)
