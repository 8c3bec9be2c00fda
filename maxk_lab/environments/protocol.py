"""The protocol every environment follows: instances from a seed, i.i.d. rollouts, teacher forcing, enumeration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.catalogue import ENVIRONMENTS

# A batch of problem instances; only the environment that made it looks inside.
Instances = Any


@dataclass(frozen=True)
class Rollouts:
    """n trajectories per instance, i.i.d. along n given the instance; B instances, T the longest trajectory.

    rewards, log_probs, entropy, logit_proxy: [B, n] floating; lengths: [B, n] decisions taken before done; actions: [B, n, T],
    padded after done. Rewards are higher-is-better. `entropy` sums the policy's entropy over steps; `logit_proxy` is
    Σ_t (1 − 2π_t + Σ_a π_t(a)²), the squared norm of the gradient with respect to the logits.
    """

    rewards: Tensor
    log_probs: Tensor
    actions: Tensor
    lengths: Tensor
    logit_proxy: Tensor
    entropy: Tensor


class Environment(Protocol):
    """What a study needs of an environment. No method reads or changes the global random state."""

    enumerable: bool

    def policy(self, seed: int) -> nn.Module:
        """A freshly initialised policy in evaluation mode."""
        ...

    def instances(self, count: int, seed: int) -> Instances:
        """`count` problem instances."""
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

    def enumerate(self, instances: Instances) -> tuple[Tensor, Tensor]:
        """Every trajectory of one instance: actions [A, T] and rewards [A]. Raises `LabError` when there are too many."""
        ...


def make_environment(parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> Environment:
    """The environment `parameters["name"]` with its own and its policy's parameters (all of them; see its catalogue row)."""
    row = ENVIRONMENTS.get(parameters["name"])
    return cast(Environment, load(row.implementation)(row, parameters, policy))
