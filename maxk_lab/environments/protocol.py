"""The protocol every environment follows: instances from a seed, i.i.d. rollouts, teacher forcing, enumeration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.objectives import Objective

# A batch of problem instances; only the environment that made it looks inside.
Instances = Any


@dataclass(frozen=True)
class Rollouts:
    """n trajectories per instance, i.i.d. along n given the instance; B instances, T the longest trajectory.

    rewards, log_probs, entropy, logit_proxy: [B, n] floating; lengths: [B, n] decisions taken before done; actions: [B, n, T],
    padded after done. Rewards are higher-is-better. `entropy` sums the policy's entropy over steps; `logit_proxy` is
    Σ_t (1 − 2π_t + Σ_a π_t(a)²), the squared norm of the gradient with respect to the logits.

    Where an environment has them: truncated [B, n] bool, cut at the longest allowed length instead of ended by the policy;
    reward_parts [B, n, F], the value of each of F reward functions before weighting, NaN where one returned None. `rewards` is
    NaN exactly where a reward function returned None: that trajectory is unscorable, not worth zero.
    """

    rewards: Tensor
    log_probs: Tensor
    actions: Tensor
    lengths: Tensor
    logit_proxy: Tensor
    entropy: Tensor
    truncated: Tensor | None = None
    reward_parts: Tensor | None = None


@dataclass(frozen=True)
class TokenStatistics:
    """What every decision of n trajectories per instance says; T is the width of the actions asked about.

    log_probs, entropy, logit_proxy: [B, n, T] floating, zero after the end; log_probs and entropy are differentiable. mask:
    [B, n, T] bool, whether the trajectory still took a decision there. Sums over T are the fields of `Rollouts` of the same name.
    """

    log_probs: Tensor
    entropy: Tensor
    logit_proxy: Tensor
    mask: Tensor


class Environment(Protocol):
    """What a study needs of an environment. No method reads or changes the global random state."""

    enumerable: bool

    def policy(self, seed: int) -> nn.Module:
        """A freshly initialised policy in evaluation mode."""
        ...

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Instances:
        """`count` problem instances. The held-out ones share none with the others; continuous instances never repeat anyway."""
        ...

    def select(self, instances: Instances, index: int) -> Instances:
        """Instance `index` alone, as a batch of one."""
        ...

    def rollout(self, policy: nn.Module, instances: Instances, n: int, *, seed: int) -> Rollouts:
        """`n` i.i.d. trajectories per instance, without gradient."""
        ...

    def log_probs(self, policy: nn.Module, instances: Instances, actions: Tensor) -> Tensor:
        """log π(actions) by teacher forcing, differentiable: actions [B, n, T] → [B, n]."""
        ...

    def tokens(self, policy: nn.Module, instances: Instances, actions: Tensor) -> TokenStatistics:
        """The same by decision: actions [B, n, T] → [B, n, T] each; its `log_probs` sum to those of `log_probs`."""
        ...

    def enumerate(self, instances: Instances) -> tuple[Tensor, Tensor]:
        """Every trajectory of one instance: actions [A, T] and rewards [A]. Raises `LabError` when there are too many."""
        ...


@runtime_checkable
class SamplingWithTokens(Protocol):
    """An environment whose trajectories and their differentiable log-probabilities come out of one pass."""

    def rollout_with_tokens(
        self, policy: nn.Module, instances: Instances, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        """`rollout` and then `tokens` of its actions: the same values, the latter differentiable, for less than both."""
        ...


@runtime_checkable
class ForcedStarts(Protocol):
    """An environment with POMO's start protocol: the i-th trajectory of an instance begins with an action of its own."""

    def forced_starts(self) -> Environment:
        """The same environment with forced first actions, no decisions: log-probability 0, mask False, not in `lengths`.

        The trajectories of an instance are then neither i.i.d. nor the policy's own: their mean is another objective, and no
        estimate over them is an unbiased one of the policy's Max@K. Raises `LabError` where RL4CO has no such starts.
        """
        ...


@runtime_checkable
class GreedyEnvironment(Protocol):
    """An environment whose policy can be decoded greedily; rewards [B] float64 on the CPU, higher is better, without gradient."""

    def greedy(self, policy: nn.Module, instances: Instances) -> Tensor:
        """The reward of taking the most likely action throughout."""
        ...

    def greedy_augmented(
        self, policy: nn.Module, instances: Instances, augmentations: int = 8
    ) -> Tensor:
        """The best greedy reward over an instance's rotated and mirrored copies, each scored on the original instance.

        Raises `LabError` where there are no coordinates to rotate, or for another number than 8.
        """
        ...

    def greedy_multistart(self, policy: nn.Module, instances: Instances) -> Tensor:
        """The best greedy reward over all forced first actions. Raises `LabError` where there are none."""
        ...


@runtime_checkable
class InstanceFiles(Protocol):
    """An environment whose instances can be kept in files."""

    def read_instances(self, path: str | Path) -> Instances:
        """The instances of a file or a folder of files. Raises `LabError` when they are none of this environment's."""
        ...

    def write_instances(self, instances: Instances, path: str | Path) -> None:
        """Write what `read_instances` reads."""
        ...

    def instances_hash(self, instances: Instances) -> str:
        """16 hexadecimal digits that say what the instances are, not where they come from."""
        ...


@runtime_checkable
class PlacedEnvironment(Protocol):
    """An environment that runs where its instances and its policy are; `instances` makes them on the CPU."""

    def place(self, instances: Instances, device: torch.device | str) -> Instances:
        """The instances on `device`; the policy is to be moved there, too. Rollouts come out on the same device."""
        ...


@runtime_checkable
class VectorisedEnvironment(Protocol):
    """An environment whose log-probability is a pure function of one trajectory, so that torch.func can map its gradient."""

    def trajectory_inputs(self, instances: Instances, actions: Tensor) -> tuple[Tensor, ...]:
        """What `trajectory_log_prob` takes, a row per trajectory: actions [B, n, T] → tensors [B·n, ...], by instance."""
        ...

    def trajectory_log_prob(self, policy: Callable[..., Tensor], *row: Tensor) -> Tensor:
        """log π of one trajectory, a scalar. `policy` is the module or a function with its signature; works under vmap and grad."""
        ...


@runtime_checkable
class ExactEnvironment(Protocol):
    """An environment whose trajectories cannot be listed, but whose objectives can be integrated."""

    has_exact: bool

    def exact_objective(
        self, policy: nn.Module, instances: Instances, objective: Objective
    ) -> Tensor:
        """J of one instance (a batch of one), a scalar differentiable in the policy's parameters.

        Raises `LabError` where `has_exact` is False.
        """
        ...


def make_environment(parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> Environment:
    """The environment `parameters["name"]` with its own and its policy's parameters: all of its catalogue row but optional ones.

    `policy["checkpoint"]`, where a policy's weights come from, is no matter of the environment, whose policies are fresh.
    """
    row = ENVIRONMENTS.get(parameters["name"])
    fresh = {name: value for name, value in policy.items() if name != "checkpoint"}
    return cast(Environment, load(row.implementation)(row, parameters, fresh))
