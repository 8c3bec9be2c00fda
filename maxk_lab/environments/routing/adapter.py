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
from rl4co.utils.ops import unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.capabilities import Optima
from maxk_lab.environments.catalogue import EnvironmentRow
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics
from maxk_lab.environments.routing import greedy as rl4co_greedy
from maxk_lab.environments.routing.decoding import (
    Race,
    Start,
    encode,
    next_log_policy,
    replayed,
    start_nodes,
)
from maxk_lab.environments.routing.parallel import is_parallel
from maxk_lab.environments.routing.passes import Pass, mapped, parallel, sequential, unrecorded
from maxk_lab.errors import LabError
from maxk_lab.policies.fresh import fresh_policy

MAX_TRAJECTORIES = 50_000
# Where a step with gradient through the decoding loop is faster than with parallel teacher forcing:
# on a CPU, by the timings of benchmarks/bench_decoding.py. Nothing else has been timed.
LOOP_DEVICES = ("cpu",)


class RL4COEnvironment:
    """Any environment of RL4CO whose trajectories a policy samples one node at a time.

    Its catalogue row names it.
    """

    def __init__(
        self, row: EnvironmentRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.name = row.name
        self.shared_encoding = row.shared_encoding
        self.multistart = row.multistart
        self.solved = row.optima
        self.forced = False
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
        if not self.multistart:
            raise LabError(
                f"{self.name} has no forced starts: not every one of RL4CO's would be feasible"
            )
        environment = copy.copy(self)
        environment.forced = True
        environment.enumerable = False
        return environment

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: TensorDict, n: int, *, seed: int) -> Rollouts:
        found = unrecorded(
            self.env,
            policy,
            self._start(policy, instances, n),
            Race(seed),
            self._first(instances, n),
        )
        return self._rollouts(found, n)

    def rollout_with_tokens(
        self, policy: nn.Module, instances: TensorDict, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        """Decodes step by step on `LOOP_DEVICES`, else all steps together where that is exact."""
        race, first = Race(seed), self._first(instances, n)
        start = self._start(policy, instances, n)
        if instances["action_mask"].device.type in LOOP_DEVICES or not is_parallel(policy, start):
            found = sequential(self.env, policy, start, race, first)
        else:
            constant = start.detached()
            found = parallel(
                self.env,
                policy,
                start,
                lambda state: race(next_log_policy(policy, constant, state)),
                first,
            )
        return self._rollouts(found, n), mapped(lambda values: unbatchify(values, n), found[1])

    def log_probs(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> Tensor:
        """Step by step, so that the values are those of the rollout, digit for digit."""
        n = actions.shape[1]
        forced, first = self._forced(actions)
        choose = replayed(forced)
        _, tokens = sequential(self.env, policy, self._start(policy, instances, n), choose, first)
        return unbatchify(tokens.log_probs.sum(1), n)

    def tokens(self, policy: nn.Module, instances: TensorDict, actions: Tensor) -> TokenStatistics:
        """All steps together where that is exact.

        The values are then those of the rollout up to rounding.
        """
        n = actions.shape[1]
        forced, first = self._forced(actions)
        start = self._start(policy, instances, n)
        together = parallel if is_parallel(policy, start) else sequential
        decoded, tokens = together(self.env, policy, start, replayed(forced), first)
        beyond = (0, actions.shape[2] - decoded.actions.shape[1])
        return mapped(lambda values: unbatchify(nn.functional.pad(values, beyond), n), tokens)

    def greedy(self, policy: nn.Module, instances: TensorDict) -> Tensor:
        return rl4co_greedy.greedy_rewards(
            self.env, policy, instances, shared_encoding=self.shared_encoding
        )

    def greedy_augmented(
        self, policy: nn.Module, instances: TensorDict, augmentations: int = 8
    ) -> Tensor:
        if augmentations != rl4co_greedy.DIHEDRAL:
            raise LabError(
                f"augmentations must be 8, the symmetries of a square; got {augmentations}"
            )
        return rl4co_greedy.augmented_rewards(
            self.env, policy, instances, shared_encoding=self.shared_encoding
        )

    def greedy_multistart(self, policy: nn.Module, instances: TensorDict) -> Tensor:
        self.forced_starts()
        return rl4co_greedy.multistart_rewards(
            self.env, policy, instances, shared_encoding=self.shared_encoding
        )

    def read_instances(self, path: str | Path) -> TensorDict:
        from maxk_lab.environments.routing.files.instances import read_instances

        return read_instances(self.env, path, self.dtype)

    def write_instances(self, instances: TensorDict, path: str | Path) -> None:
        from maxk_lab.environments.routing.files.instances import write_instances

        write_instances(instances, path)

    def instances_hash(self, instances: TensorDict) -> str:
        from maxk_lab.environments.routing.files.instances import instances_hash

        return instances_hash(instances)

    def optimum_method(self, instances: TensorDict, asked: str) -> str | None:
        from maxk_lab.environments.routing.optima.solve import optimum_method

        return optimum_method(self, instances, asked)

    def optima(self, instances: TensorDict, method: str) -> Optima:
        from maxk_lab.environments.routing.optima.solve import best_rewards

        return best_rewards(self, instances, method)

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

    def _start(self, policy: nn.Module, instances: TensorDict, n: int) -> Start:
        return encode(policy, instances, n, shared_encoding=self.shared_encoding)

    def _first(self, instances: TensorDict, n: int) -> Tensor | None:
        """The forced first actions [(n b)], if there are any."""
        return start_nodes(self.env, instances, n) if self.forced else None

    def _forced(self, actions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Actions [b, n, T] as RL4CO lays them out, but for the forced first one; and that one.

        [(n b), T or T − 1] and [(n b)] or None.
        """
        flat = actions.transpose(0, 1).flatten(0, 1)
        return (flat[:, 1:], flat[:, 0]) if self.forced else (flat, None)

    @torch.no_grad()
    def _rollouts(self, found: Pass, n: int) -> Rollouts:
        decoded, tokens = found
        return Rollouts(
            rewards=unbatchify(self.env.get_reward(decoded.state, decoded.actions), n),
            log_probs=unbatchify(tokens.log_probs.detach().sum(1), n),
            actions=unbatchify(decoded.actions, n),
            lengths=unbatchify(decoded.mask.sum(1), n),
            logit_proxy=unbatchify(tokens.logit_proxy.sum(1), n),
            entropy=unbatchify(tokens.entropy.detach().sum(1), n),
        )
