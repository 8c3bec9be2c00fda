"""The units of an objective study: all objectives of one environment along one parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.studies.objective.schema import ObjectiveGrid, Study
from maxk_lab.sweeps.plan.cells import Point, Unit
from maxk_lab.sweeps.plan.grid import Conditions, Refusal, Skipped, points_of
from maxk_lab.sweeps.spec.variation import Variant

# Cost of one exact objective at one value of the parameter: an integral, or a sum over all
# trajectories.
OBJECTIVE_COST = 10.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ObjectiveUnit(Unit):
    """The exact objectives of one environment along one parameter of its policy, or its own.

    `objective` has parameter, from, to and points.
    """

    study: ClassVar[str] = "objective"
    shares: ClassVar[bool] = False
    told: ClassVar[tuple[str, ...]] = ("environment", "policy", "objective", "seed")
    objective: Mapping[str, Any]

    def work(self) -> dict[str, float]:
        """Return the work of the points along the parameter."""
        return {"points": OBJECTIVE_COST * self.objective["points"]}

    @property
    def label(self) -> str:
        """A few words for people, e.g. `gaussian, along policy.mean, seed 0`."""
        return f"{self.environment['name']}, along {self.objective['parameter']}, seed {self.seed}"


@dataclass(frozen=True)
class ObjectiveConditions(Conditions):
    """The estimator and K of a point alone decide; it has no baseline, and its K for an n."""

    study: ClassVar[str] = "objective"

    def refusal(self, point: Point) -> Refusal | None:
        """Return why no objective is estimated at this K, or None."""
        try:
            _ = Method.parse(point["estimator"], k=point["k"]).objective
        except LabError as error:
            return "k", str(error)
        return None

    def asked(self, grid: ObjectiveGrid) -> Iterator[Point]:
        """Yield the estimators and K that a grid asks for."""
        for estimator, k in product(grid.estimator, grid.k):
            yield {"estimator": estimator, "k": k}

    def meant(self, asked: Point, grid: ObjectiveGrid) -> tuple[Point, Refusal | None]:
        """Return the point at the K of the objective, or why there is no such objective."""
        if (refused := self.refusal(asked)) is not None:
            return asked, refused
        at = Method.parse(asked["estimator"], k=asked["k"]).objective.k
        return asked | {"baseline": "none", "n": at, "k": at}, None


def left_out(study: Study, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured."""
    return points_of(study.grid, ObjectiveConditions(environment))[1]


def units(study: Study, seeds: Sequence[int], found: Sequence[Variant]) -> Iterator[ObjectiveUnit]:
    """Yield a unit for each environment and seed."""
    along = study.model_dump(mode="json", by_alias=True, exclude={"grid"})
    points, _ = points_of(study.grid, ObjectiveConditions())
    for variant, seed in product(found, seeds):
        unit = ObjectiveUnit(
            environment=variant.environment, policy=variant.policy, seed=seed, objective=along
        )
        yield unit.with_points(points)
