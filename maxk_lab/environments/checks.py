"""The laws that rollouts and log-probabilities keep wherever they are used: shapes, and rewards."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from maxk_lab.environments.rollouts import Rollouts
from maxk_lab.errors import LabError


def checked(rollouts: Rollouts, n: int, instances: int | None = None) -> Rollouts:
    """Return rollouts of `n` trajectories of each of so many instances, None for any number.

    Raises `LabError` for a part of another shape, which would be taken for other trajectories.
    """
    rewards = rollouts.rewards
    if instances is None:
        instances = len(rewards) if isinstance(rewards, Tensor) and rewards.dim() else 0
    for name in ("rewards", "log_probs", "lengths", "logit_proxy", "entropy", "truncated"):
        values = getattr(rollouts, name)
        if name != "truncated" or values is not None:
            check_shape(f"the {name} of its rollout", values, instances, n)
    check_shape("the actions of its rollout", rollouts.actions, instances, n, "T")
    return rollouts


def check_shape(what: str, values: Any, instances: int, n: int, *more: str) -> None:
    """Raise `LabError` unless `values`, of an environment, are a tensor [instances, n, *more]."""
    shape = (instances, n)
    if isinstance(values, Tensor) and values.dim() == 2 + len(more) and values.shape[:2] == shape:
        return
    got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
    raise LabError(
        f"{what} must be a tensor [{', '.join(map(str, (*shape, *more)))}] (instances, "
        f"trajectories of each), got {got}: the environment does not keep the protocol of "
        "maxk_lab.environments"
    )


def check_scorable(rewards: Tensor, where: str, study: str) -> None:
    """Raise `LabError` where a trajectory of a study that needs all of them has no reward."""
    missing = int(rewards.isnan().sum())
    if missing:
        raise LabError(
            f"{missing} of {rewards.numel()} trajectories{where} have no reward (a reward function "
            f"returned None); a {study} study needs a reward for every trajectory: let the "
            "function return a number there, such as 0.0 (None is for training studies, which "
            "leave such a trajectory out)"
        )
