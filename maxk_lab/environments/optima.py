"""The best reward of every instance of a batch: listed, or by the environment's own methods."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.environments.environment import Environment, Instances, Optima, supports
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
        best = [_best(_rewards(environment, instances, b)) for b in range(len(instances))]
        return Optima(torch.stack(best), method, exact=True)
    if not supports(environment, "optima"):
        raise LabError(f"there is no optimum by {method} for {type(environment).__name__}")
    return environment.optima(instances, method)


def method_for(environment: Environment, instances: Instances, asked: str) -> str:
    """The method of `optima` that `evaluate.reference: asked` stands for here.

    Raises `LabError` with the reason where there is none.
    """
    if supports(environment, "optimum_method"):
        own = environment.optimum_method(instances, asked)
        if own is not None:
            return own
    if not environment.enumerable or asked not in ("auto", "exact"):
        raise LabError("no optimum is known for this environment and size")
    listed = len(_rewards(environment, instances, 0)) * len(instances) if asked == "auto" else 0
    if listed > AUTO_TRAJECTORIES:
        raise LabError("the trajectories of all held-out instances are many to list: ask for exact")
    return ENUMERATION


def _best(rewards: Tensor) -> Tensor:
    """The largest that is no NaN, if there is one."""
    scored = rewards[~rewards.isnan()]
    return scored.max() if len(scored) else rewards[0]


def _rewards(environment: Environment, instances: Instances, index: int) -> Tensor:
    return environment.enumerate(environment.select(instances, index))[1].double()
