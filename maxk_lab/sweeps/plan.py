"""The plan of a sweep: which cells to measure, which of them share a score pool, what to skip and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from maxk_lab.estimators.catalogue import choose_estimator, effective_k, is_token_level, refusal
from maxk_lab.sweeps.cells import GRID_AXES, AnyUnit, Cell, TrainingUnit, Unit
from maxk_lab.sweeps.fields import Grid
from maxk_lab.sweeps.schema import SweepSpec


@dataclass(frozen=True)
class Skipped:
    """A grid point that is not measured. `repeats` holds the point measured instead, if there is one."""

    point: Mapping[str, Any]
    reason: str
    repeats: Mapping[str, Any] | None = None
    study: str = "gradient"

    def __str__(self) -> str:
        return f"{describe(self.point)}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """What a sweep measures, in the order in which it does, and what it leaves out."""

    units: tuple[AnyUnit, ...]
    skipped: tuple[Skipped, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of every unit."""
        return tuple(cell for unit in self.units for cell in unit.cells)


def describe(point: Mapping[str, Any]) -> str:
    """A grid point as text, e.g. `estimator=maxk baseline=none n=8 k=1`."""
    return " ".join(f"{axis}={point[axis]}" for axis in GRID_AXES)


def grid_points(grid: Grid, study: str = "gradient") -> tuple[list[dict[str, Any]], list[Skipped]]:
    """The points of a study's grid that are measured, and those that cannot run or repeat another, with why."""
    points, skipped = _grid_points(grid, study)
    return list(points), list(skipped)


# The checks of a spec, its claims and its plan all ask for the same grid.
@lru_cache(maxsize=8)
def _grid_points(grid: Grid, study: str) -> tuple[tuple[dict[str, Any], ...], tuple[Skipped, ...]]:
    points: dict[tuple[Any, ...], dict[str, Any]] = {}
    skipped: list[Skipped] = []
    for values in product(grid.estimator, grid.baseline, grid.n, grid.k):
        asked: dict[str, Any] = dict(zip(GRID_AXES, values, strict=True))
        reason = _refusal(asked, study)
        # An estimator that takes no baseline runs once, whatever baselines the others are compared with.
        alone = not choose_estimator(asked["estimator"]).row.takes_baseline and "none" in grid.baseline
        if reason is not None and not alone:
            skipped.append(Skipped(asked, reason, study=study))
            continue
        point = (
            asked
            | {"k": effective_k(asked["estimator"], asked["k"])}
            | ({"baseline": "none"} if alone else {})
        )
        if alone and (reason := _refusal(point, study)) is not None:
            skipped.append(Skipped(asked, reason, study=study))
            continue
        key = tuple(point.values())
        if key in points:
            skipped.append(Skipped(asked, f"repeats {describe(point)}", repeats=point, study=study))
        else:
            points[key] = point
    return tuple(points.values()), tuple(skipped)


def _refusal(point: Mapping[str, Any], study: str) -> str | None:
    if study == "gradient" and is_token_level(point["baseline"]):
        return f"{point['baseline']} gives one weight per token: training studies only"
    return refusal(**point)


def make_plan(spec: SweepSpec) -> Plan:
    """The plan of a validated spec: the gradient study, then the training study, each in the file's order."""
    units: list[AnyUnit] = []
    skipped: list[Skipped] = []
    if spec.gradient is not None:
        points, left_out = grid_points(spec.gradient.grid)
        units += _gradient_units(spec, points)
        skipped += left_out
    if spec.training is not None:
        points, left_out = grid_points(spec.training.grid, "training")
        units += _training_units(spec, points)
        skipped += left_out
    return Plan(tuple(units), tuple(skipped))


def _gradient_units(spec: SweepSpec, points: list[dict[str, Any]]) -> Iterator[Unit]:
    """All seeds of a stage before the next stage."""
    study = spec.gradient
    assert study is not None
    for stage, seed in product(study.stages, spec.seeds):
        settings: dict[str, Any] = {
            "environment": dict(spec.environment),
            "policy": dict(spec.policy),
            # What trains no policy must not tell two cells apart.
            "warmup": study.warmup.model_dump() if stage > 0 else {},
            "stage": stage,
            "seed": seed,
            "instances": study.instances,
            "pool": study.pool,
            "partitions": study.partitions,
            "complete": study.complete,
        }
        bare = Unit(**settings)
        yield Unit(**settings, cells=tuple(Cell(bare, **point) for point in points))


def _training_units(spec: SweepSpec, points: list[dict[str, Any]]) -> Iterator[TrainingUnit]:
    """All points of a seed before the next seed, so that an unfinished sweep has whole seeds to compare."""
    assert spec.training is not None
    training = spec.training.settings()
    for seed, point in product(spec.seeds, points):
        bare = TrainingUnit(dict(spec.environment), dict(spec.policy), seed, training)
        yield TrainingUnit(bare.environment, bare.policy, seed, training, cells=(Cell(bare, **point),))
