"""The methods that every environment has, and those that some have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeGuard, cast

import torch
from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics
from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective

# A batch of problem instances, which can be counted with `len` and sliced; only the environment
# that made it looks inside.
Instances = Any
# `evaluate.reference: auto` lists at most this number of trajectories.
AUTO_TRAJECTORIES = 250_000
ENUMERATION = "enumeration"


class Environment(Protocol):
    """Everything that a study needs of an environment.

    No method reads or changes the global random state. `enumerable` says whether `enumerate` works.
    """

    enumerable: bool

    def policy(self, seed: int) -> nn.Module:
        """Return a freshly initialised policy in evaluation mode."""

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Instances:
        """`count` problem instances drawn from `seed`.

        The held-out ones share none with the others; continuous instances never repeat anyway.
        """

    def rollout(self, policy: nn.Module, instances: Instances, n: int, *, seed: int) -> Rollouts:
        """`n` i.i.d. trajectories per instance, without gradient."""

    def log_probs(self, policy: nn.Module, instances: Instances, actions: Tensor) -> Tensor:
        """log π(actions) by teacher forcing, differentiable: actions [B, n, T] → [B, n]."""

    def tokens(self, policy: nn.Module, instances: Instances, actions: Tensor) -> TokenStatistics:
        """Return the same by decision: actions [B, n, T] → [B, n, T] each.

        Its `log_probs` sum to those of the method `log_probs`.
        """

    def enumerate(self, instances: Instances) -> tuple[Tensor, Tensor]:
        """Return every trajectory of one instance: actions [A, T] and rewards [A].

        Raises `LabError` when there are too many.
        """


@dataclass(frozen=True)
class Optima:
    """The best rewards of instances, `values` [B] float64, in the environment's own units.

    `kind` is the method that found them, `exact` whether it proves that they are best.
    """

    values: Tensor
    kind: str
    exact: bool


class FullEnvironment(Environment, Protocol):
    """An environment with all that it can be asked besides; `supports` tells which it has.

    A comment in quotes is the word that stands for the methods below it in the `supports` of the
    environment's row, from which a plan can refuse without making the environment.
    """

    name: str

    def rollout_with_tokens(
        self, policy: nn.Module, instances: Instances, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        """`rollout` and then `tokens` of its actions, differentiable, in one pass of the policy."""

    # "tempered"
    def tempered(self, temperature: float) -> Environment:
        """Return the same environment with the log-probabilities of every decision divided by this.

        They are normalised again, after any temperature of its own and before a nucleus: samples,
        log-probabilities and Max@K are then of that other policy.
        """

    # "cuda"
    def place(self, instances: Instances, device: torch.device | str) -> Instances:
        """The instances on `device`; rollouts of a policy that is there come out there, too."""

    # "multistart": feasible for any number of trajectories
    def forced_starts(self) -> Environment:
        """Return the same environment with POMO's forced first actions.

        These are no decisions: log-probability 0, mask False, not in `lengths`. Trajectories are
        then independent, and not identically distributed: estimates are not of the policy's Max@K,
        but of J_K^starts, the mean over the K-subsets of the starts of E[max].
        Raises `LabError` where there are no such starts.
        """

    def start_count(self, instances: Instances) -> int:
        """Return the number of first actions that can be forced on each of these instances."""

    # "greedy"
    def greedy(
        self,
        policy: nn.Module,
        instances: Instances,
        *,
        augmented: bool = False,
        multistart: bool = False,
    ) -> Tensor:
        """Return the reward [B] of taking the most likely action throughout, without gradient.

        It is the best over all forced first actions where `multistart` asks for these, and over an
        instance's eight rotated and mirrored copies where `augmented` does; both as in POMO's
        paper. Raises `LabError` where there are no such starts, or no coordinates to rotate.
        """

    # The row's `files`: environments may share instances, but not their rewards.
    def read_instances(self, path: str | Path) -> Instances:
        """Return the instances of a file or a folder of files, in the order of their names.

        Raises `LabError` when they are none of this environment's.
        """

    def write_instances(self, instances: Instances, path: str | Path) -> None:
        """Write what `read_instances` reads."""

    def instances_hash(self, instances: Instances) -> str:
        """16 hexadecimal digits that say what the instances are, not where they come from."""

    # The row's `solves_any_size`
    def optimum_method(self, instances: Instances, reference: str) -> str | None:
        """Return the method for `evaluate.reference`: auto (what takes a moment) or exact.

        None leaves the optimum to enumeration. Raises `LabError` with a reason where there is no
        method, and for `auto` where the method takes longer.
        """

    def optima(self, instances: Instances, method: str) -> Optima:
        """The optima by a method that `optimum_method` named. Raises `LabError` for another one."""

    # Where trajectories cannot be listed, but objectives be integrated
    has_exact: bool

    def exact_objective(
        self, policy: nn.Module, instances: Instances, objective: Objective
    ) -> Tensor:
        """J of one instance (a batch of one), a scalar differentiable in the policy's parameters.

        Raises `LabError` where `has_exact` is False.
        """

    # Scores
    def trajectory_inputs(self, instances: Instances, actions: Tensor) -> tuple[Tensor, ...]:
        """Return the arguments of `trajectory_log_probs`, a row per trajectory.

        actions [B, n, T] → [B·n, ...], by instance.
        """

    def encoding(self, policy: nn.Module, instances: Instances) -> tuple[Tensor, ...]:
        """All that a policy reads of instances once for all trajectories, with gradient: [B, ...].

        Empty where it reads every trajectory by itself.
        """

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        """log π [M] of M trajectories, each with its own row of the encoding and of the rest.

        The layers that this calls have the trajectories along the first dimension of what they read
        and give.
        """


def supports(environment: Environment, *methods: str) -> TypeGuard[FullEnvironment]:
    """Return whether an environment has all of these methods, and only these may then be called."""
    return all(getattr(environment, method, None) is not None for method in methods)


def make_environment(parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> Environment:
    """Return the environment `parameters["name"]`, with its own and its policy's parameters.

    Both hold all parameters of their catalogue rows but optional ones; the environment gets the
    name of the policy where `policy` has none. `policy["checkpoint"]`, where a policy's weights
    come from, is no matter of the environment, whose policies are fresh. Raises `LabError` for a
    policy that cannot act there.
    """
    row = ENVIRONMENTS.get(parameters["name"])
    fresh = {name: value for name, value in policy.items() if name != "checkpoint"}
    fresh["name"] = row.policy_row(fresh).name
    return cast(Environment, load(row.implementation)(row, parameters, fresh))


def optima(environment: Environment, instances: Instances, method: str) -> Optima:
    """Return the optima of `instances` by a method of `method_for`.

    Enumeration takes the largest reward among all trajectories, computed in the precision of the
    instances, as a policy's rewards are; NaN where none can be scored. Raises `LabError` where the
    environment has no such method.
    """
    if method == ENUMERATION:
        best = []
        for index in range(len(instances)):
            rewards = _rewards(environment, instances, index)
            scored = rewards[~rewards.isnan()]
            best.append(scored.max() if len(scored) else rewards[0])
        return Optima(torch.stack(best), method, exact=True)
    if not supports(environment, "optima"):
        raise LabError(f"there is no optimum by {method} for {type(environment).__name__}")
    return environment.optima(instances, method)


def method_for(environment: Environment, instances: Instances, reference: str) -> str:
    """Return the method of `optima` that `evaluate.reference` stands for here.

    Raises `LabError` with the reason where there is none.
    """
    if supports(environment, "optimum_method"):
        method = environment.optimum_method(instances, reference)
        if method is not None:
            return method
    if not environment.enumerable or reference not in ("auto", "exact"):
        raise LabError("no optimum is known for this environment and size")
    listed = len(_rewards(environment, instances, 0)) * len(instances) if reference == "auto" else 0
    if listed > AUTO_TRAJECTORIES:
        raise LabError("the trajectories of all held-out instances are many to list: ask for exact")
    return ENUMERATION


def _rewards(environment: Environment, instances: Instances, index: int) -> Tensor:
    return environment.enumerate(instances[index : index + 1])[1].double()
