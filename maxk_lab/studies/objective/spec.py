"""An objective study in a sweep file: its block, the units of its plan, and their conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar

from pydantic import Field

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.method import Method
from maxk_lab.fields import Finite, GroupSize, Model, OneOrMore
from maxk_lab.planning.cells import Point, Unit
from maxk_lab.planning.grid import Conditions, Refusal, left_out_of, units_of
from maxk_lab.sweep_file.fields import AnyStudy, EstimatorName
from maxk_lab.sweep_file.grids import is_exact, point_problems
from maxk_lab.sweep_file.place import moved, settings_by_key
from maxk_lab.sweep_file.studies import Problem
from maxk_lab.sweep_file.vary import Variant


class ObjectiveGrid(Model):
    """The objectives that are compared: the one that each estimator targets, at each K."""

    estimator: OneOrMore[EstimatorName]
    k: OneOrMore[GroupSize]


class Study(AnyStudy):
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
    """The estimator and K of a point alone decide; it has no baseline, and its K for an n."""

    study: ClassVar[str] = "objective"

    def refusal(self, point: Point) -> Refusal | None:
        """Return why no objective is estimated at this K, or None."""
        try:
            _ = Method.parse(point["estimator"], k=point["k"]).objective
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
        k = Method.parse(point["estimator"], k=point["k"]).objective.k
        return point | {"baseline": "none", "n": k, "k": k}, None


units = partial(units_of, ObjectiveUnit, ObjectiveConditions)
left_out = partial(left_out_of, ObjectiveConditions)


def check(study: Study, variants: Sequence[Variant]) -> Iterator[Problem]:
    """Yield grids that cannot run, and a parameter that does not exist or refuses its ends."""
    for number, entry in enumerate(study.grid):
        yield from point_problems(
            ("objective", "grid", number), ObjectiveConditions().points(entry)
        )
    for variant in variants:  # one, as the sweep varies nothing
        yield from _parameter_problems(study, variant.environment, variant.policy)


def _parameter_problems(
    study: Study, environment: Mapping[str, Any], policy: Mapping[str, Any]
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
