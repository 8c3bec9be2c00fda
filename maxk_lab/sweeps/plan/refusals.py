"""Reasons for which a grid point cannot run, shared by the kinds of studies."""

from __future__ import annotations

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.method import Method
from maxk_lab.sweeps.plan.cells import Point
from maxk_lab.sweeps.plan.grid import Refusal


def refused_k(point: Point) -> Refusal | None:
    """Return why estimator and baseline do not go together at this n and K."""
    reason = Method.of(point).refusal(point["n"])
    return None if reason is None else ("k", reason)


def refused_tokens(point: Point) -> Refusal | None:
    """Return why a study of one weight per trajectory cannot run the point."""
    baseline = point["baseline"]
    if not Method.of(point).is_token_level:
        return None
    return "baseline", f"{baseline} gives one weight per token: training studies only"


def refused_weight(point: Point, environment: str | None) -> Refusal | None:
    """Return why the trajectories of the environment lack the weight that the baseline needs."""
    baseline = point["baseline"]
    kind = Method.of(point).needed_weight
    if kind is None or environment is None or environment not in ENVIRONMENTS:
        return None
    reason = ENVIRONMENTS.get(environment).refuses_weight(kind)
    if reason is None:
        return None
    return "baseline", f"{baseline} needs the trajectory weight {kind}, and {reason}"
