"""RL4CO's environments: truly i.i.d. sampling, teacher forcing, greedy decoding, enumeration.

RL4CO lays n trajectories of B instances out as (n b); everything here leaves as [B, n].
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Before RL4CO itself: it readies the import.
from maxk_lab.environments.routing.setup import draw_instances, make_rl4co  # isort: skip

import torch
from rl4co.utils.ops import batchify, unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.capabilities import Optima
from maxk_lab.environments.catalogue import EnvironmentRow
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped
from maxk_lab.environments.routing.augmentation import DIHEDRAL, symmetric_copies
from maxk_lab.environments.routing.decoding import (
    Choice,
    Decoded,
    Race,
    Start,
    cache_of,
    decode,
    encode,
    greedily,
    parts_of,
    replayed,
)
from maxk_lab.environments.routing.files import instances as files
from maxk_lab.environments.routing.optima import solve
from maxk_lab.environments.routing.parallel import is_parallel
from maxk_lab.environments.routing.passes import (
    Pass,
    parallel,
    sampled,
    sequential,
    taught,
    unrecorded,
)
from maxk_lab.environments.routing.rows import MAX_TRAJECTORIES
from maxk_lab.environments.routing.starts import start_count, start_nodes
from maxk_lab.environments.routing.walks import walk_of
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy


class RL4COEnvironment:
    """Any environment of RL4CO whose trajectories a policy samples one node at a time.

    Its catalogue row names it.
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
        self.env = make_rl4co(row, parameters)

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(self.policy_parameters, seed, environment=self.name)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> TensorDict:
        return draw_instances(self.env, count, seed, self.dtype)

    def select(self, instances: TensorDict, index: int) -> TensorDict:
        return instances[index : index + 1]

    def place(self, instances: TensorDict, device: torch.device | str) -> TensorDict:
        return instances.to(device)

    def forced_starts(self) -> RL4COEnvironment:
        if not self.row.multistart:
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
        return start_count(self.env, instances)

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: TensorDict, n: int, *, seed: int) -> Rollouts:
        return self._rollouts(unrecorded(self._start(policy, instances, n), Race(seed)), n)

    def rollout_with_tokens(
        self, policy: nn.Module, instances: TensorDict, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        found = sampled(self._start(policy, instances, n), Race(seed))
        return self._rollouts(found, n), mapped(lambda values: unbatchify(values, n), found[1])

    def log_probs(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> Tensor:
        """Step by step, so that the values are those of the rollout, digit for digit."""
        tokens = sequential(*self._given(policy, instances, actions))[1]
        return unbatchify(tokens.log_probs.sum(1), actions.shape[1])

    def tokens(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> TokenStatistics:
        """The values are those of the rollout up to rounding."""
        decoded, tokens = taught(*self._given(policy, instances, actions))
        n, beyond = actions.shape[1], (0, actions.shape[2] - decoded.actions.shape[1])
        return mapped(lambda values: unbatchify(nn.functional.pad(values, beyond), n), tokens)

    def encoding(self, policy: nn.Module, instances: TensorDict) -> tuple[Tensor, ...]:
        return parts_of(self._encoded(policy, instances, 1).cache)

    def trajectory_inputs(self, instances: TensorDict, actions: Tensor) -> tuple[Any, ...]:
        count, n = actions.shape[:2]
        owner = torch.arange(count, device=actions.device).repeat_interleave(n)
        return instances[owner], actions.flatten(0, 1)

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Any
    ) -> Tensor:
        state, actions = rows
        first, rest = self._forced_and_chosen(actions)
        shared = int(self.row.shared_encoding)
        start = Start(
            self.env, policy, state.clone(), cache_of(*encoding), shared, first, self.temperature
        )
        way = parallel if is_parallel(start) else sequential
        return way(start, replayed(rest))[1].log_probs.sum(1)

    @torch.no_grad()
    def greedy(self, policy: nn.Module, instances: TensorDict) -> Tensor:
        return self._rewards(greedily(self._encoded(policy, instances, 1)), 1)[:, 0]

    @torch.no_grad()
    def greedy_augmented(
        self, policy: nn.Module, instances: TensorDict, augmentations: int = 8
    ) -> Tensor:
        if augmentations != DIHEDRAL:
            raise LabError(
                f"augmentations must be 8, the symmetries of a square; got {augmentations}"
            )
        return self._best_of_copies(policy, instances, 1)

    @torch.no_grad()
    def greedy_multistart(self, policy: nn.Module, instances: TensorDict) -> Tensor:
        forced, n = self.forced_starts(), self.start_count(instances)
        return self._rewards(greedily(forced._start(policy, instances, n)), n).amax(1)

    @torch.no_grad()
    def greedy_multistart_augmented(self, policy: nn.Module, instances: TensorDict) -> Tensor:
        forced = self.forced_starts()
        return forced._best_of_copies(policy, instances, self.start_count(instances))

    def read_instances(self, path: str | Path) -> TensorDict:
        return files.read_instances(self.env, path, self.dtype)

    def write_instances(self, instances: TensorDict, path: str | Path) -> None:
        files.write_instances(instances, path)

    def instances_hash(self, instances: TensorDict) -> str:
        return files.instances_hash(instances)

    def optimum_method(self, instances: TensorDict, asked: str) -> str | None:
        return solve.optimum_method(self, instances, asked)

    def optima(self, instances: TensorDict, method: str) -> Optima:
        return solve.best_rewards(self, instances, method)

    def enumerate(self, instances: TensorDict) -> tuple[Tensor, Tensor]:
        """Breadth-first expansion of the environment's action mask.

        Finished trajectories are padded with action 0.
        """
        if not self.enumerable:
            raise LabError(f"{self.name} of this size has too many trajectories to enumerate")
        state = instances.clone()
        actions = torch.empty(1, 0, dtype=torch.long, device=state["action_mask"].device)
        while not state["done"].all():
            mask = state["action_mask"].clone()
            finished = state["done"].reshape(-1)
            mask[finished] = False
            mask[finished, 0] = True
            rows, action = mask.nonzero(as_tuple=True)
            if len(rows) > MAX_TRAJECTORIES:
                raise LabError(
                    f"{self.name} of this size has more than {MAX_TRAJECTORIES} trajectories"
                )
            actions = torch.cat([actions[rows], action.unsqueeze(1)], 1)
            state = state[rows]
            state.set("action", action)
            state = self.env.step(state)["next"]
        return actions, self.env.get_reward(state, actions)

    def _best_of_copies(self, policy: nn.Module, instances: TensorDict, n: int) -> Tensor:
        """The best of n greedy solutions of each symmetric copy, as the instance itself values."""
        copies = symmetric_copies(self.env, instances)
        actions = greedily(self._start(policy, copies, n)).actions
        # [(n 8 b)], as are the instances: b varies fastest.
        walk = walk_of(self.env, batchify(instances.clone(), n * DIHEDRAL))
        original = decode(walk, replayed(actions))
        return self._rewards(original, n * DIHEDRAL).amax(1)

    def _start(self, policy: nn.Module, instances: TensorDict, n: int) -> Start:
        first = start_nodes(self.env, instances, n) if self.forced else None
        return self._encoded(policy, instances, n, first)

    def _given(
        self, policy: nn.Module, instances: TensorDict, actions: Tensor
    ) -> tuple[Start, Choice]:
        """The start of actions [b, n, T], and the choice of one after the other."""
        first, rest = self._forced_and_chosen(actions.transpose(0, 1).flatten(0, 1))
        return self._encoded(policy, instances, actions.shape[1], first), replayed(rest)

    def _forced_and_chosen(self, actions: Tensor) -> tuple[Tensor | None, Tensor]:
        """The forced first actions [N], if any, and the others, of actions [N, T]."""
        return (actions[:, 0], actions[:, 1:]) if self.forced else (None, actions)

    def _encoded(
        self, policy: nn.Module, instances: TensorDict, n: int, first: Tensor | None = None
    ) -> Start:
        shared, temperature = self.row.shared_encoding, self.temperature
        return encode(self.env, policy, instances, n, shared, first, temperature)

    def _rewards(self, decoded: Decoded, n: int) -> Tensor:
        return unbatchify(self.env.get_reward(decoded.state, decoded.actions), n)

    @torch.no_grad()
    def _rollouts(self, found: Pass, n: int) -> Rollouts:
        decoded, tokens = found
        rewards = self.env.get_reward(decoded.state, decoded.actions)
        flat = Rollouts.of_tokens(tokens, actions=decoded.actions, rewards=rewards)
        return mapped(lambda values: unbatchify(values.detach(), n), flat)
