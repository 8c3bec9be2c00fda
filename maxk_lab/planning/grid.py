"""Grids of studies: the points that are measured, and the skipped points with the reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.method import Method
from maxk_lab.planning.cells import Point, Unit
from maxk_lab.sweep_file.fields import describe_point
from maxk_lab.sweep_file.studies import GRID_AXES

if TYPE_CHECKING:
    from maxk_lab.sweep_file.vary import Variant

# The axis at fault, and why the point cannot run.
Refusal = tuple[str, str]
UnitType = TypeVar("UnitType", bound=Unit)


@dataclass(frozen=True)
class Skipped:
    """A grid point that is not measured; `repeats` holds an equal point that is, if any.

    `axis` is the axis at fault. For a combination of varied settings that cannot run, `point` holds
    these settings.
    """

    point: Mapping[str, Any]
    reason: str
    study: str
    repeats: Mapping[str, Any] | None = None
    axis: str = "k"

    def __str__(self) -> str:
        return f"{describe_point(self.point)}: {self.reason}"


@dataclass(frozen=True)
class Conditions(ABC):
    """The settings that decide, together with a point, whether the point can run.

    A setting that is None is unknown and refuses nothing.
    """

    study: ClassVar[str]
    environment: str | None = None

    @abstractmethod
    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis at fault and why the point cannot run, or None."""

    def points(self, grid: Any) -> tuple[tuple[Point, ...], tuple[Skipped, ...]]:
        """Return the points of a grid that are measured, and the skipped points."""
        return _points(grid, self)

    def grid_points(self, grid: Any) -> Iterator[Point]:
        """Yield every combination of the axes of a grid."""
        for values in product(grid.estimator, grid.baseline, grid.n, grid.k):
            yield dict(zip(GRID_AXES, values, strict=True))

    def measured_point(self, point: Point, grid: Any) -> tuple[Point, Refusal | None]:
        """Return the point that is measured for a point of `grid`, and why it cannot run."""
        refused = self.refusal(point)
        # An estimator without a baseline runs once if other estimators run with none.
        method = Method.of(point)
        alone = not method.takes_baseline and "none" in grid.baseline
        measured = point | {"baseline": "none"} if alone else point
        if refused is None or alone:
            measured = measured | {"k": method.k}
            refused = self.refusal(measured) if alone else None
        return measured, refused


def refused_k(point: Point) -> Refusal | None:
    """Return why estimator and baseline do not fit together at this n and K."""
    reason = Method.of(point).refusal(point["n"])
    return None if reason is None else ("k", reason)


def refused_weight(point: Point, environment: str | None) -> Refusal | None:
    """Return why the trajectories of the environment lack the weight that the baseline needs."""
    kind = Method.of(point).needed_weight
    if kind is None or environment is None or environment not in ENVIRONMENTS:
        return None
    reason = ENVIRONMENTS.get(environment).refuses_weight(kind)
    if reason is None:
        return None
    return "baseline", f"{point['baseline']} needs the trajectory weight {kind}, and {reason}"


def points_of(grids: Iterable[Any], conditions: Conditions) -> tuple[list[Point], list[Skipped]]:
    """Return the points of all grids of a study that are measured, and the skipped points."""
    points: dict[tuple[Any, ...], Point] = {}
    skipped: list[Skipped] = []
    for grid in grids:
        measured, left_out = conditions.points(grid)
        skipped += left_out
        for point in measured:
            if tuple(point.values()) in points:
                skipped.append(repeated(point, conditions.study))
            points.setdefault(tuple(point.values()), point)
    return list(points.values()), skipped


def units_of(
    unit: type[UnitType],
    conditions: type[Conditions],
    study: Any,
    seeds: Sequence[int],
    variants: Sequence[Variant],
) -> Iterator[UnitType]:
    """Yield a unit with the settings of the study for each variant and seed."""
    for variant in variants:
        points, _ = points_of(study.grid, conditions(variant.environment["name"]))
        first = unit(
            environment=variant.environment,
            policy=variant.policy,
            seed=seeds[0],
            setting=variant.setting,
            points=tuple(points),
            **study.unit_settings(),
        )
        yield from first.with_seeds(seeds)


def left_out_of(conditions: type[Conditions], study: Any, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured in this environment."""
    return points_of(study.grid, conditions(environment))[1]


def repeated(point: Point, study: str) -> Skipped:
    """Return a point as skipped if an earlier entry of the grid has it, too."""
    reason = f"repeats {describe_point(point)} of an earlier entry"
    return Skipped(point, reason, study, repeats=point)


# The checks of a sweep, its claims and its plan all need the same grid.
@lru_cache(maxsize=8)
def _points(grid: Any, conditions: Conditions) -> tuple[tuple[Point, ...], tuple[Skipped, ...]]:
    points: dict[tuple[Any, ...], Point] = {}
    skipped: list[Skipped] = []
    study = conditions.study
    for point in conditions.grid_points(grid):
        measured, refused = conditions.measured_point(point, grid)
        if refused is not None:
            skipped.append(Skipped(point, refused[1], study, axis=refused[0]))
        elif (key := tuple(measured.values())) in points:
            same = {axis: measured[axis] for axis in point}
            reason = f"repeats {describe_point(same)}"
            skipped.append(Skipped(point, reason, study, repeats=same))
        else:
            points[key] = measured
    return tuple(points.values()), tuple(skipped)
