"""A weights study in a sweep file: its block, the units of its plan, and their conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from maxk_lab.estimators.method import Method
from maxk_lab.fields import OneOrMore, Samples
from maxk_lab.planning.cells import Point, Unit
from maxk_lab.planning.grid import (
    Conditions,
    Refusal,
    left_out_of,
    refused_k,
    units_of,
)
from maxk_lab.sweep_file.fields import AnyStudy, Grid
from maxk_lab.sweep_file.grids import grid_problems
from maxk_lab.sweep_file.studies import Problem
from maxk_lab.sweep_file.vary import Variant


class Study(AnyStudy):
    """The weights that estimators give the rewards of `groups` groups of the initial policy."""

    groups: Samples = 4
    grid: OneOrMore[Grid]


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightsUnit(Unit):
    """Groups of rewards of one environment, policy and seed, whose weights are shown."""

    study: ClassVar[str] = "weights"
    sent: ClassVar[tuple[str, ...]] = ("environment", "policy", "seed", "groups")
    groups: int


@dataclass(frozen=True)
class WeightsConditions(Conditions):
    """The rewards of a group, ordered by size, are all that the weights may depend on."""

    study: ClassVar[str] = "weights"

    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis that is at fault and why the point cannot run, or None."""
        method = Method.of(point)
        if (reason := rewards_only_refusal(method)) is not None:
            return ("estimator" if method.needs_ratios else "baseline"), reason
        return refused_k(point)


units = partial(units_of, WeightsUnit, WeightsConditions)
left_out = partial(left_out_of, WeightsConditions)


def rewards_only_refusal(method: Method) -> str | None:
    """Return why the weights of this method need more than rewards, or None."""
    estimator, baseline = method.estimator.name, method.baseline.name
    if method.needs_ratios:
        return (
            f"{estimator} needs the probability ratios of two policies, "
            "which rewards alone do not determine"
        )
    if method.fit is not None:
        return f"{baseline} is fitted to gradients, which rewards alone do not determine"
    kind = method.needed_weight
    if kind is not None:
        return (
            f"{baseline} needs the trajectory weight {kind}, which rewards alone do not determine"
        )
    return None


def check(study: Study, variants: Sequence[Variant]) -> Iterator[Problem]:
    """Yield grids that cannot run."""
    return grid_problems("weights", study.grid, variants, lambda _, name: WeightsConditions(name))
