"""The protocol that every environment follows: instances, i.i.d. rollouts, teacher forcing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics

# A batch of problem instances; only the environment that made it looks inside.
Instances = Any


class Environment(Protocol):
    """Everything that a study needs of an environment.

    No method reads or changes the global random state. `enumerable` says whether `enumerate` works.
    """

    enumerable: bool

    def policy(self, seed: int) -> nn.Module:
        """A freshly initialised policy in evaluation mode."""

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Instances:
        """`count` problem instances drawn from `seed`.

        The held-out ones share none with the others; continuous instances never repeat anyway.
        """

    def select(self, instances: Instances, index: int) -> Instances:
        """Instance `index` alone, as a batch of one."""

    def rollout(self, policy: nn.Module, instances: Instances, n: int, *, seed: int) -> Rollouts:
        """`n` i.i.d. trajectories per instance, without gradient."""

    def log_probs(self, policy: nn.Module, instances: Instances, actions: Tensor) -> Tensor:
        """log π(actions) by teacher forcing, differentiable: actions [B, n, T] → [B, n]."""

    def tokens(self, policy: nn.Module, instances: Instances, actions: Tensor) -> TokenStatistics:
        """The same by decision: actions [B, n, T] → [B, n, T] each.

        Its `log_probs` sum to those of the method `log_probs`.
        """

    def enumerate(self, instances: Instances) -> tuple[Tensor, Tensor]:
        """Every trajectory of one instance: actions [A, T] and rewards [A].

        Raises `LabError` when there are too many.
        """


def make_environment(parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> Environment:
    """The environment `parameters["name"]`, with its own and its policy's parameters.

    Both hold all parameters of their catalogue rows but optional ones; the environment is told the
    name of the policy where `policy` has none. `policy["checkpoint"]`, where a policy's weights
    come from, is no matter of the environment, whose policies are fresh. Raises `LabError` for a
    policy that cannot act there.
    """
    row = ENVIRONMENTS.get(parameters["name"])
    fresh = {name: value for name, value in policy.items() if name != "checkpoint"}
    fresh["name"] = row.policy_row(fresh).name
    return cast(Environment, load(row.implementation)(row, parameters, fresh))
