"""The methods of every environment, and the optional methods."""

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

# A batch of problem instances, which supports `len` and slices; its content belongs to its
# environment.
Instances = Any
# The most trajectories that `evaluate.reference: auto` lists.
AUTO_TRAJECTORIES = 250_000
ENUMERATION = "enumeration"


class Environment(Protocol):
    """The methods that every study needs of an environment.

    No method reads or changes the global random state. `enumerable` says whether `enumerate` works.
    """

    enumerable: bool

    def policy(self, seed: int) -> nn.Module:
        """Return a freshly initialised policy in evaluation mode."""

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Instances:
        """Return `count` problem instances drawn from `seed`.

        Held-out instances share none with the others; continuous instances never repeat.
        """

    def rollout(self, policy: nn.Module, instances: Instances, n: int, *, seed: int) -> Rollouts:
        """Return `n` i.i.d. trajectories per instance, without gradient."""

    def log_probs(self, policy: nn.Module, instances: Instances, actions: Tensor) -> Tensor:
        """Return log π(actions) by teacher forcing, differentiable: actions [B, n, T] → [B, n]."""

    def tokens(self, policy: nn.Module, instances: Instances, actions: Tensor) -> TokenStatistics:
        """Return the statistics by decision: actions [B, n, T] → [B, n, T] each.

        Its `log_probs` sum to those of the method `log_probs`.
        """

    def enumerate(self, instances: Instances) -> tuple[Tensor, Tensor]:
        """Return every trajectory of one instance: actions [A, T] and rewards [A].

        Raises `LabError` if there are too many.
        """


@dataclass(frozen=True)
class Optima:
    """The best rewards of instances, `values` [B] float64, in the environment's own units.

    `kind` is the method, `exact` whether it proves that they are best.
    """

    values: Tensor
    kind: str
    exact: bool


class FullEnvironment(Environment, Protocol):
    """An environment with all optional methods; `supports` tests for them.

    A comment in quotes is the word for the methods below it in the environment's row. With this
    word, a plan can refuse without making the environment.
    """

    name: str

    def rollout_with_tokens(
        self, policy: nn.Module, instances: Instances, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        """`rollout` and then `tokens` of its actions, differentiable, in one pass of the policy."""

    # "tempered"
    def tempered(self, temperature: float) -> Environment:
        """The environment with the log-probabilities of every decision divided by `temperature`.

        They are normalised again, after any temperature of its own and before a nucleus: samples,
        log-probabilities and Max@K then belong to the tempered policy.
        """

    # "cuda"
    def place(self, instances: Instances, device: torch.device | str) -> Instances:
        """Return the instances on `device`; rollouts of a policy there stay there, too."""

    # "multistart": feasible for any number of trajectories
    def forced_starts(self) -> Environment:
        """Return the environment with POMO's forced first actions.

        A forced action is no decision: log-probability 0, mask False, not in `lengths`.
        Trajectories are then independent, and not identically distributed. Estimates are not of the
        policy's Max@K, but of J_K^starts, the mean over the K-subsets of the starts of E[max].
        Raises `LabError` if there are no such starts.
        """

    def start_count(self, instances: Instances) -> int:
        """Return the number of possible forced first actions on each instance."""

    # "greedy"
    def greedy(
        self,
        policy: nn.Module,
        instances: Instances,
        *,
        augmented: bool = False,
        multistart: bool = False,
    ) -> Tensor:
        """Return the reward [B] of the most likely actions, without gradient.

        With `multistart`, it is the best over all forced first actions. With `augmented`, it is the
        best over an instance's eight rotated and mirrored copies. Both are as in POMO's paper.
        Raises `LabError` if there are no such starts, or no coordinates to rotate.
        """

    # The row's `files`: environments may share instances, but not their rewards.
    def read_instances(self, path: str | Path) -> Instances:
        """Return the instances of a file, or of a folder of files in the order of their names.

        Raises `LabError` if they belong to another environment.
        """

    def write_instances(self, instances: Instances, path: str | Path) -> None:
        """Write a file for `read_instances`."""

    def instances_hash(self, instances: Instances) -> str:
        """16 hexadecimal digits that identify the instances, independently of their source."""

    # The row's `solves_any_size`
    def optimum_method(self, instances: Instances, reference: str) -> str | None:
        """Return the method for `evaluate.reference`: auto (what takes a moment) or exact.

        None leaves the optimum to enumeration. Raises `LabError` with a reason if there is no
        method, and for `auto` if the method takes longer.
        """

    def optima(self, instances: Instances, method: str) -> Optima:
        """The optima by a method of `optimum_method`. Raises `LabError` for another method."""

    # If trajectories cannot be listed, but objectives can be integrated
    has_exact: bool

    def exact_objective(
        self, policy: nn.Module, instances: Instances, objective: Objective
    ) -> Tensor:
        """Return J of one instance (a batch of one), differentiable in the policy's parameters.

        Raises `LabError` if `has_exact` is False.
        """

    # Scores
    def trajectory_inputs(self, instances: Instances, actions: Tensor) -> tuple[Tensor, ...]:
        """Return the arguments of `trajectory_log_probs`, a row per trajectory.

        actions [B, n, T] → [B·n, ...], by instance.
        """

    def encoding(self, policy: nn.Module, instances: Instances) -> tuple[Tensor, ...]:
        """Return the shared encoding of instances for all trajectories: [B, ...], with gradient.

        Empty if it reads every trajectory separately.
        """

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        """Return log π [M] of M trajectories, each with its own row of the encoding and the inputs.

        All layers have the trajectories along the first dimension of their inputs and outputs.
        """


def supports(environment: Environment, *methods: str) -> TypeGuard[FullEnvironment]:
    """Return whether an environment has all of these methods."""
    return all(getattr(environment, method, None) is not None for method in methods)


def make_environment(parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> Environment:
    """Return the environment `parameters["name"]`, with its own and its policy's parameters.

    Both hold all parameters of their catalogue rows but optional ones. If `policy` has no name, the
    environment gets its default policy. `policy["checkpoint"]`, the source of the weights, does not
    affect the environment, whose policies are fresh. Raises `LabError` for a policy that cannot act
    there.
    """
    row = ENVIRONMENTS.get(parameters["name"])
    fresh = {name: value for name, value in policy.items() if name != "checkpoint"}
    fresh["name"] = row.policy_row(fresh).name
    return cast(Environment, load(row.implementation)(row, parameters, fresh))


def optima(environment: Environment, instances: Instances, method: str) -> Optima:
    """Return the optima of `instances` by a method of `method_for`.

    Enumeration takes the largest reward among all trajectories, in the precision of the instances,
    like the rewards of a policy; NaN if no trajectory can be scored. Raises `LabError` if the
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
    """Return the method of `optima` for `evaluate.reference`.

    Raises `LabError` with the reason if there is none.
    """
    if supports(environment, "optimum_method"):
        method = environment.optimum_method(instances, reference)
        if method is not None:
            return method
    if not environment.enumerable or reference not in ("auto", "exact"):
        raise LabError("no optimum is known for this environment and size")
    listed = len(_rewards(environment, instances, 0)) * len(instances) if reference == "auto" else 0
    if listed > AUTO_TRAJECTORIES:
        raise LabError("the trajectories of all held-out instances are many to list: use exact")
    return ENUMERATION


def _rewards(environment: Environment, instances: Instances, index: int) -> Tensor:
    return environment.enumerate(instances[index : index + 1])[1].double()
