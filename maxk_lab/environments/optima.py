"""The best reward of every instance of a batch: listed, or by the environment's own methods."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.environments.capabilities import KnownOptima, Optima
from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.errors import LabError

# Where an optimum is not asked for by name, at most so many trajectories are listed.
AUTO_TRAJECTORIES = 250_000
ENUMERATION = "enumeration"


def optima(environment: Environment, instances: Instances, method: str) -> Optima:
    """The optima of `instances` by a method of `method_for`.

    Enumeration takes the largest reward among all trajectories, in the precision of the instances,
    as a policy's rewards are; NaN where none can be scored. Raises `LabError` where the environment
    has no such method.
    """
    if method == ENUMERATION:
        return Optima(_enumerated(environment, instances), method, exact=True)
    if not isinstance(environment, KnownOptima):
        raise LabError(f"there is no optimum by {method} for {type(environment).__name__}")
    return environment.optima(instances, method)


def method_for(environment: Environment, instances: Instances, asked: str) -> str:
    """The method of `optima` that `evaluate.reference: asked` stands for here.

    Raises `LabError` with the reason where there is none.
    """
    own = (
        environment.optimum_method(instances, asked)
        if isinstance(environment, KnownOptima)
        else None
    )
    if own is not None:
        return own
    if not environment.enumerable or asked not in ("auto", "exact"):
        raise LabError("no optimum is known for this environment and size")
    if asked == "auto" and _trajectories(environment, instances) > AUTO_TRAJECTORIES:
        raise LabError("the trajectories of all held-out instances are many to list: ask for exact")
    return ENUMERATION


def _trajectories(environment: Environment, instances: Instances) -> int:
    return len(environment.enumerate(environment.select(instances, 0))[1]) * len(instances)


def _enumerated(environment: Environment, instances: Instances) -> Tensor:
    best = []
    for index in range(len(instances)):
        rewards = environment.enumerate(environment.select(instances, index))[1].double()
        scored = rewards[~rewards.isnan()]
        best.append(scored.max() if len(scored) else torch.tensor(torch.nan, dtype=torch.float64))
    return torch.stack(best)
