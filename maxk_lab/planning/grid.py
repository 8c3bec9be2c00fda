"""Grids of studies: the points that are measured, and the others with the reason."""

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
from maxk_lab.sweep_file.studies import GRID_AXES

if TYPE_CHECKING:
    from maxk_lab.sweep_file.variation import Variant

# The axis at fault, and why the point cannot run.
Refusal = tuple[str, str]
UnitType = TypeVar("UnitType", bound=Unit)


@dataclass(frozen=True)
class Skipped:
    """A grid point that is not measured; `repeats` holds the point measured instead, if any.

    `axis` is the part of the point that the reason is about. For a combination of varied settings
    that cannot run, `point` holds these settings.
    """

    point: Mapping[str, Any]
    reason: str
    study: str
    repeats: Mapping[str, Any] | None = None
    axis: str = "k"

    def __str__(self) -> str:
        return f"{describe(self.point)}: {self.reason}"


@dataclass(frozen=True)
class Conditions(ABC):
    """The settings that decide, besides a point itself, whether it can run in a kind of study.

    None stands for what is not known and refuses nothing.
    """

    study: ClassVar[str]
    environment: str | None = None

    @abstractmethod
    def refusal(self, point: Point) -> Refusal | None:
        """Return the axis that is at fault and why the point cannot run, or None."""

    def points(self, grid: Any) -> tuple[tuple[Point, ...], tuple[Skipped, ...]]:
        """Return the points of one grid that are measured, and the others with why."""
        return _points(grid, self)

    def asked(self, grid: Any) -> Iterator[Point]:
        """Yield the points that a grid asks for."""
        for values in product(grid.estimator, grid.baseline, grid.n, grid.k):
            yield dict(zip(GRID_AXES, values, strict=True))

    def meant(self, asked: Point, grid: Any) -> tuple[Point, Refusal | None]:
        """Return the point of `grid` that is measured for one asked for, or why none can run."""
        refused = self.refusal(asked)
        # An estimator that takes no baseline runs once, whatever the others are compared with.
        method = Method.of(asked)
        alone = not method.takes_baseline and "none" in grid.baseline
        point = asked | {"baseline": "none"} if alone else asked
        if refused is None or alone:
            point = point | {"k": method.k}
            refused = self.refusal(point) if alone else None
        return point, refused


def refused_k(point: Point) -> Refusal | None:
    """Return why estimator and baseline do not go together at this n and K."""
    reason = Method.of(point).refusal(point["n"])
    return None if reason is None else ("k", reason)


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


def describe(point: Mapping[str, Any]) -> str:
    """Return a grid point as text, e.g. `estimator=maxk baseline=none n=8 k=1`."""
    return " ".join(f"{axis}={value}" for axis, value in point.items())


def points_of(grids: Iterable[Any], conditions: Conditions) -> tuple[list[Point], list[Skipped]]:
    """Return the points of all grids of a study that are measured, and the others with why."""
    points: dict[tuple[Any, ...], Point] = {}
    skipped: list[Skipped] = []
    for grid in grids:
        found, left_out = conditions.points(grid)
        skipped += left_out
        for point in found:
            if tuple(point.values()) in points:
                skipped.append(repeated(point, conditions.study))
            points.setdefault(tuple(point.values()), point)
    return list(points.values()), skipped


def units_of(
    unit: type[UnitType],
    conditions: type[Conditions],
    study: Any,
    seeds: Sequence[int],
    found: Sequence[Variant],
) -> Iterator[UnitType]:
    """Yield a unit for each setting and seed, which is told the settings of the study."""
    for variant, seed in product(found, seeds):
        points, _ = points_of(study.grid, conditions(variant.environment["name"]))
        yield unit(
            environment=variant.environment,
            policy=variant.policy,
            seed=seed,
            setting=variant.setting,
            **study.told(),
        ).with_points(points)


def left_out_of(conditions: type[Conditions], study: Any, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured in this environment."""
    return points_of(study.grid, conditions(environment))[1]


def repeated(point: Point, study: str) -> Skipped:
    """Return what is told of a point that an earlier entry of the grid has, too."""
    reason = f"repeats {describe(point)} of an earlier entry"
    return Skipped(point, reason, study, repeats=point)


# The checks of a spec, its claims and its plan all ask for the same grid.
@lru_cache(maxsize=8)
def _points(grid: Any, conditions: Conditions) -> tuple[tuple[Point, ...], tuple[Skipped, ...]]:
    points: dict[tuple[Any, ...], Point] = {}
    skipped: list[Skipped] = []
    study = conditions.study
    for asked in conditions.asked(grid):
        point, refused = conditions.meant(asked, grid)
        if refused is not None:
            skipped.append(Skipped(asked, refused[1], study, axis=refused[0]))
        elif (key := tuple(point.values())) in points:
            same = {axis: point[axis] for axis in asked}
            skipped.append(Skipped(asked, f"repeats {describe(same)}", study, repeats=same))
        else:
            points[key] = point
    return tuple(points.values()), tuple(skipped)
