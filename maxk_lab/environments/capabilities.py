"""The protocols of what an environment can do besides: each is declared by its catalogue row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics
from maxk_lab.estimators.objectives import Objective


@runtime_checkable
class SamplingWithTokens(Protocol):
    """Trajectories and their differentiable log-probabilities come out of one pass."""

    def rollout_with_tokens(
        self, policy: nn.Module, instances: Instances, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        """`rollout` and then `tokens` of its actions, for less than both.

        The values are the same, and those of the tokens differentiable.
        """


@runtime_checkable
class ForcedStarts(Protocol):
    """POMO's start protocol: each trajectory of an instance begins with an action of its own.

    Declared as `multistart`.
    """

    def forced_starts(self) -> Environment:
        """The same environment with forced first actions.

        These are no decisions: log-probability 0, mask False, not in `lengths`. The trajectories of
        an instance are then neither i.i.d. nor the policy's own: their mean is another objective,
        and no estimate over them is an unbiased one of the policy's Max@K. Raises `LabError` where
        RL4CO has no such starts.
        """

    def start_count(self, instances: Instances) -> int:
        """The number of first actions that can be forced on each of these instances."""


@runtime_checkable
class TemperedEnvironment(Protocol):
    """A policy can be sampled at another temperature; declared as `tempered`."""

    def tempered(self, temperature: float) -> Environment:
        """The same environment with the log-probabilities of every decision divided by this.

        They are normalised again, after any temperature of the environment's own and before a
        nucleus. Everything here is then of that other policy: samples, log-probabilities, Max@K.
        """


@runtime_checkable
class GreedyEnvironment(Protocol):
    """A policy can be decoded greedily; declared as `greedy`.

    Rewards [B] are float64 on the CPU, higher is better, without gradient.
    """

    def greedy(self, policy: nn.Module, instances: Instances) -> Tensor:
        """The reward of taking the most likely action throughout."""

    def greedy_augmented(
        self, policy: nn.Module, instances: Instances, augmentations: int = 8
    ) -> Tensor:
        """The best greedy reward over an instance's rotated and mirrored copies.

        Each is scored on the original instance. Raises `LabError` where there are no coordinates to
        rotate, or for another number than 8.
        """

    def greedy_multistart(self, policy: nn.Module, instances: Instances) -> Tensor:
        """The best greedy reward over all forced first actions.

        Raises `LabError` where there are none.
        """

    def greedy_multistart_augmented(self, policy: nn.Module, instances: Instances) -> Tensor:
        """The best greedy reward over all forced first actions on each of the eight copies.

        The way in which POMO is decoded in its paper. Raises `LabError` where one of the two does.
        """


@runtime_checkable
class InstanceFiles(Protocol):
    """Instances can be kept in files; their formats are declared as `files`.

    `name` is that of the catalogue: environments may share instances, but not their rewards.
    """

    name: str

    def read_instances(self, path: str | Path) -> Instances:
        """The instances of a file or a folder of files, in the order of their names.

        They can be counted with `len` and sliced. Raises `LabError` when they are none of this
        environment's.
        """

    def write_instances(self, instances: Instances, path: str | Path) -> None:
        """Write what `read_instances` reads."""

    def instances_hash(self, instances: Instances) -> str:
        """16 hexadecimal digits that say what the instances are, not where they come from."""


@runtime_checkable
class PlacedEnvironment(Protocol):
    """An environment that runs where its instances and its policy are; declared as `cuda`.

    `instances` makes them on the CPU.
    """

    def place(self, instances: Instances, device: torch.device | str) -> Instances:
        """The instances on `device`; the policy is to be moved there, too.

        Rollouts come out on the same device.
        """


@runtime_checkable
class VectorisedEnvironment(Protocol):
    """The log-probability is a pure function of one trajectory: torch.func can map its gradient."""

    def trajectory_inputs(self, instances: Instances, actions: Tensor) -> tuple[Tensor, ...]:
        """The arguments of `trajectory_log_prob`, a row per trajectory.

        actions [B, n, T] → tensors [B·n, ...], by instance.
        """

    def trajectory_log_prob(self, policy: Callable[..., Tensor], *row: Tensor) -> Tensor:
        """log π of one trajectory, a scalar.

        `policy` is the module or a function with its signature; works under vmap and grad.
        """


@runtime_checkable
class LayerwiseEnvironment(Protocol):
    """Every layer of a policy can be called with a row per trajectory.

    A policy may read the instance first, once for all its trajectories: that is their encoding.
    """

    def log_probs(self, policy: nn.Module, instances: Instances, actions: Tensor) -> Tensor:
        """log π of the same trajectories, however the layers are called: `Environment`'s."""

    def encoding(self, policy: nn.Module, instances: Instances) -> tuple[Tensor, ...]:
        """The encoding of instances, made before any decision, differentiable: [B, ...] each.

        Empty where the policy reads every trajectory by itself.
        """

    def trajectory_inputs(self, instances: Instances, actions: Tensor) -> tuple[Tensor, ...]:
        """The arguments of `trajectory_log_probs`, a row per trajectory.

        actions [B, n, T] → [B·n, ...], by instance.
        """

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        """log π [M] of M trajectories, each with its own row of the encoding and of the rest.

        The layers that this calls have the trajectories along the first dimension of what they read
        and give.
        """


@runtime_checkable
class ExactEnvironment(Protocol):
    """Trajectories cannot be listed, but objectives can be integrated where `has_exact`."""

    has_exact: bool

    def exact_objective(
        self, policy: nn.Module, instances: Instances, objective: Objective
    ) -> Tensor:
        """J of one instance (a batch of one), a scalar differentiable in the policy's parameters.

        Raises `LabError` where `has_exact` is False.
        """


@dataclass(frozen=True)
class Optima:
    """The best rewards of instances, `values` [B] float64, in the environment's own units.

    `kind` is the method that found them, `exact` whether it proves that they are best.
    """

    values: Tensor
    kind: str
    exact: bool


@runtime_checkable
class KnownOptima(Protocol):
    """The best reward of an instance can be found without listing all; declared as `optima`."""

    def optimum_method(self, instances: Instances, asked: str) -> str | None:
        """The method for what `evaluate.reference` asks: auto, exact or pyvrp.

        `auto` asks for what takes a moment. None leaves it to enumeration, where that can be had.
        Raises `LabError` with the reason where there is no method, and for `auto` where the methods
        take longer.
        """

    def optima(self, instances: Instances, method: str) -> Optima:
        """The optima by a method that `optimum_method` named. Raises `LabError` for another one."""
