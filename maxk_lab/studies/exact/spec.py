"""The blocks `weights` and `objective` of a sweep file: their units, conditions and records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.method import Method
from maxk_lab.fields import (
    Finite,
    GroupSize,
    Model,
    Number,
    OneOrMore,
    Recorded,
    Samples,
    check_lengths,
)
from maxk_lab.planning.cells import Point, Unit
from maxk_lab.planning.grid import (
    Conditions,
    Refusal,
    Skipped,
    left_out_of,
    refused_k,
    units_of,
)
from maxk_lab.sweep_file.fields import AnyStudy, EstimatorName, Grid
from maxk_lab.sweep_file.grids import grid_problems, is_exact, point_problems
from maxk_lab.sweep_file.place import moved, settings_by_key
from maxk_lab.sweep_file.studies import Problem
from maxk_lab.sweep_file.vary import Variant


class ExactRecord(Recorded):
    """The numbers of a finished cell, each computed without samples of other cells."""

    @property
    def scale(self) -> float:
        """The size of the largest term of its numbers, for their rounding error."""
        return 0.0

    def number(self, measure: str) -> float:
        """Return the value of a measure; NaN if the record lacks it."""
        value = getattr(self, measure, None)
        return math.nan if value is None else float(value)

    def reason(self, measure: str) -> str:
        """Return why the measure has no value; empty if it has one."""
        return "not measured" if math.isnan(self.number(measure)) else ""


class Weights(AnyStudy):
    """The weights that estimators give the rewards of `groups` groups of the initial policy."""

    groups: Samples = 4
    grid: OneOrMore[Grid]


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightsUnit(Unit):
    """Groups of rewards of one environment, policy and seed, with their weights."""

    study: ClassVar[str] = "weights"
    sent: ClassVar[tuple[str, ...]] = ("environment", "policy", "seed", "groups")
    groups: int


@dataclass(frozen=True)
class WeightsConditions(Conditions):
    """Weights may depend on the ordered rewards of a group only."""

    study: ClassVar[str] = "weights"

    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis at fault and why the point cannot run, or None."""
        method = Method.of(point)
        if (reason := rewards_only_refusal(method)) is not None:
            return ("estimator" if method.needs_ratios else "baseline"), reason
        return refused_k(point)


class WeightsRecord(ExactRecord):
    """Rewards in drawing order and their weights, both [groups, n], and measures of the weights."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number] = Field(init=False)

    rewards: list[list[Number]]
    weights: list[list[Number]]

    @property
    def scale(self) -> float:
        """The size of the largest reward or weight."""
        return max((abs(x) for group in (*self.rewards, *self.weights) for x in group), default=0.0)

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the cell cannot have this record."""
        check_lengths(cell["groups"], {"rewards": self.rewards, "weights": self.weights})
        for rewards, weights in zip(self.rewards, self.weights, strict=True):
            check_lengths(cell["n"], {"rewards": rewards, "weights": weights})


def rewards_only_refusal(method: Method) -> str | None:
    """Return why the weights of this method need more than rewards, or None."""
    estimator, baseline = method.estimator.name, method.baseline.name
    beyond = "which rewards alone do not determine"
    if method.needs_ratios:
        return f"{estimator} needs the probability ratios of two policies, {beyond}"
    if method.fit is not None:
        return f"{baseline} is fitted to gradients, {beyond}"
    kind = method.needed_weight
    return kind and f"{baseline} needs the trajectory weight {kind}, {beyond}"


class ObjectiveGrid(Model):
    """The objectives that are compared: the one that each estimator targets, at each K."""

    estimator: OneOrMore[EstimatorName]
    k: OneOrMore[GroupSize]


class Objective(AnyStudy):
    """The exact objective at `points` values of a parameter, from `from` to `to`, and its optimum.

    The values are evenly spaced. `parameter` is a number of the environment or of its policy, as in
    `policy.mean`.
    """

    parameter: str
    start: Annotated[Finite, Field(alias="from")]
    stop: Annotated[Finite, Field(alias="to")]
    points: Annotated[int, Field(ge=2, le=100_000)] = 101
    grid: OneOrMore[ObjectiveGrid]

    def unit_settings(self) -> dict[str, Any]:
        """Return the parameter and its ends as one setting."""
        return {"objective": self.model_dump(mode="json", by_alias=True, exclude={"grid"})}


@dataclass(frozen=True, eq=False, kw_only=True)
class ObjectiveUnit(Unit):
    """The exact objectives of one environment along one parameter of its policy, or its own.

    `objective` has parameter, from, to and points.
    """

    study: ClassVar[str] = "objective"
    sent: ClassVar[tuple[str, ...]] = ("environment", "policy", "objective", "seed")
    objective: Mapping[str, Any]

    @property
    def label(self) -> str:
        """A few words for people, e.g. `gaussian, along policy.mean, seed 0`."""
        return f"{self.environment['name']}, along {self.objective['parameter']}, seed {self.seed}"


@dataclass(frozen=True)
class ObjectiveConditions(Conditions):
    """A point needs an objective of its estimator at its K. It has no baseline, and n is K."""

    study: ClassVar[str] = "objective"

    def refusal(self, point: Point) -> Refusal | None:
        """Return why no objective is estimated at this K, or None."""
        name, k = point["estimator"], point["k"]
        method = Method.parse(name, k=k)
        try:
            if method.objective_at(k) != method.objective_at(k + 1):
                return "estimator", f"the objective of {name} depends on n: take tail_rl"
        except LabError as error:
            return "k", str(error)
        return None

    def grid_points(self, grid: ObjectiveGrid) -> Iterator[Point]:
        """Yield every combination of estimator and K."""
        for estimator, k in product(grid.estimator, grid.k):
            yield {"estimator": estimator, "k": k}

    def measured_point(self, point: Point, grid: ObjectiveGrid) -> tuple[Point, Refusal | None]:
        """Return the point at the K of the objective, or why there is no such objective."""
        if (refused := self.refusal(point)) is not None:
            return point, refused
        k = Method.parse(point["estimator"], k=point["k"]).objective_at(point["k"]).k
        return point | {"baseline": "none", "n": k, "k": k}, None


class ObjectiveRecord(ExactRecord):
    """The exact objective at the points of a parameter, and its maximum between the points.

    `optimum` and `optimum_value` are None without a maximum; `undefined` has the reason.
    """

    parameter: str
    points: list[Number]
    values: list[Number]
    optimum: Number | None
    optimum_value: Number | None
    undefined: dict[str, str] = Field(default_factory=dict)

    @property
    def best(self) -> tuple[float, float]:
        """The parameter at the maximum and the objective there; both NaN without a maximum."""
        if self.optimum is None or self.optimum_value is None:
            return math.nan, math.nan
        return self.optimum, self.optimum_value

    def reason(self, measure: str = "optimum") -> str:
        """Return why there is no maximum; empty if there is one."""
        defined = not math.isnan(self.best[0])
        return "" if defined else self.undefined.get("optimum", "no optimum")

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the cell cannot have this record."""
        points = cell["objective"]["points"]
        check_lengths(points, {"points": self.points, "values": self.values})


def units(
    study: Weights | Objective, seeds: Sequence[int], variants: Sequence[Variant]
) -> Iterator[WeightsUnit | ObjectiveUnit]:
    """Yield a unit for each variant and seed."""
    if isinstance(study, Weights):
        yield from units_of(WeightsUnit, WeightsConditions, study, seeds, variants)
    else:
        yield from units_of(ObjectiveUnit, ObjectiveConditions, study, seeds, variants)


def left_out(study: Weights | Objective, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured in this environment."""
    conditions = WeightsConditions if isinstance(study, Weights) else ObjectiveConditions
    return left_out_of(conditions, study, environment)


def check(study: Weights | Objective, variants: Sequence[Variant]) -> Iterator[Problem]:
    """Yield grids that cannot run, and a parameter that does not exist or refuses its ends."""
    if isinstance(study, Weights):
        yield from grid_problems(
            "weights", study.grid, variants, lambda _, name: WeightsConditions(name)
        )
        return
    for number, entry in enumerate(study.grid):
        yield from point_problems(
            ("objective", "grid", number), ObjectiveConditions().points(entry)
        )
    for variant in variants:  # a single variant, because the sweep varies nothing
        yield from _parameter_problems(study, variant.environment, variant.policy)


def _parameter_problems(
    study: Objective, environment: Mapping[str, Any], policy: Mapping[str, Any]
) -> Iterator[Problem]:
    row = ENVIRONMENTS.get(environment["name"])
    if "checkpoint" in policy:
        words = "has no place in an objective study, which moves a parameter of a policy that is "
        yield ("policy", "checkpoint"), f"{words}not trained"
        return
    if not is_exact(environment, policy):
        words = "needs an environment whose objectives are known exactly: "
        yield ("objective",), f"{words}{row.name} with {row.exact_when}"
        return
    settings = settings_by_key(row.name, policy)
    numbers = [key for key, setting in settings.items() if setting.type is float]
    if study.parameter not in numbers:
        listed = f": {', '.join(numbers)}" if numbers else f", and {row.name} has none"
        hint = did_you_mean(study.parameter, numbers)
        words = f"must be a number of the environment or its policy{listed}; got "
        yield ("objective", "parameter"), f"{words}{shown(study.parameter)}{hint}"
    ends = {"from": study.start, "to": study.stop} if study.parameter in numbers else {}
    for key, value in ends.items():
        try:
            moved(environment, policy, study.parameter, value)
        except LabError as error:
            yield ("objective", key), str(error)
    if not study.start < study.stop:
        words = f"must be greater than from = {study.start:g}, got {study.stop:g}"
        yield ("objective", "to"), words
