"""The laws that rollouts and log-probabilities keep wherever they are used: shapes, and rewards."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from maxk_lab.environments.rollouts import Rollouts
from maxk_lab.errors import LabError

# The fields of `Rollouts` with a number for every trajectory, and those that may be None.
OF_TRAJECTORIES = ("rewards", "log_probs", "lengths", "logit_proxy", "entropy")
OPTIONAL = ("truncated",)


def checked(rollouts: Rollouts, n: int, instances: int | None = None) -> Rollouts:
    """Return rollouts of `n` trajectories of each of so many instances, None for any number.

    Raises `LabError` for a part of another shape, which would be taken for other trajectories.
    """
    given = {name: getattr(rollouts, name) for name in (*OF_TRAJECTORIES, *OPTIONAL)}
    for name, values in given.items():
        if values is not None or name in OF_TRAJECTORIES:
            count = instances if instances is not None else _length(rollouts.rewards)
            check_shape(f"the {name} of its rollout", values, count, n)
    actions = rollouts.actions
    count = rollouts.rewards.shape[0]
    if not isinstance(actions, Tensor) or actions.dim() != 3 or actions.shape[:2] != (count, n):
        raise LabError(_wrong("the actions of its rollout", f"[{count}, {n}, T]", actions))
    return rollouts


def check_shape(what: str, values: Any, instances: int, n: int) -> None:
    """Raise `LabError` unless `values`, of an environment, are a tensor [instances, n]."""
    if not isinstance(values, Tensor) or values.shape != (instances, n):
        raise LabError(_wrong(what, f"[{instances}, {n}]", values))


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


def _length(values: Any) -> int:
    return len(values) if isinstance(values, Tensor) and values.dim() else 0


def _wrong(what: str, shape: str, values: Any) -> str:
    got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
    return (
        f"{what} must be a tensor {shape} (instances, trajectories of each), got {got}: the "
        "environment does not keep the protocol of maxk_lab.environments"
    )
