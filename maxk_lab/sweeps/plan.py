"""The plan of a sweep: which cells to measure, which of them share a score pool, what to skip and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from maxk_lab.estimators.catalogue import choose_estimator, effective_k, refusal
from maxk_lab.sweeps.identity import IDENTITY_VERSION, content_hash
from maxk_lab.sweeps.schema import Grid, SweepSpec

GRID_AXES = ("estimator", "baseline", "n", "k")


@dataclass(frozen=True)
class Skipped:
    """A grid point that is not measured. `repeats` holds the point measured instead, if there is one."""

    point: Mapping[str, Any]
    reason: str
    repeats: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{describe(self.point)}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Unit:
    """Cells of one environment, policy, stage and seed: they share one score pool and run in one worker."""

    environment: Mapping[str, Any]
    policy: Mapping[str, Any]
    warmup: Mapping[str, Any]
    stage: int
    seed: int
    instances: int
    pool: int
    partitions: int
    cells: tuple[Cell, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything that the shared pool depends on, and the number of partitions: plain JSON."""
        shared = ("environment", "policy", "warmup")
        single = ("stage", "seed", "instances", "pool", "partitions")
        return {name: dict(getattr(self, name)) for name in shared} | {
            name: getattr(self, name) for name in single
        }

    @property
    def label(self) -> str:
        """A few words for people, e.g. `tsp, stage 200, seed 1`."""
        return f"{self.environment['name']}, stage {self.stage}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class Cell:
    """One point of the grid at one stage and seed; equal and hashed by its `id`."""

    unit: Unit = field(repr=False)
    estimator: str
    baseline: str
    n: int
    k: int

    @cached_property
    def _meaning(self) -> dict[str, Any]:
        return {
            "identity_version": IDENTITY_VERSION,
            "study": "gradient",
            **self.unit.as_dict(),
            **{axis: getattr(self, axis) for axis in GRID_AXES},
        }

    @cached_property
    def id(self) -> str:
        """16 hex digits that depend on the resolved meaning of the cell and on nothing else."""
        return content_hash(self._meaning)

    @property
    def stage(self) -> int:
        """Steps of warm-up before measuring."""
        return self.unit.stage

    @property
    def seed(self) -> int:
        """The seed of the spec that all randomness of the cell derives from."""
        return self.unit.seed

    def as_dict(self) -> dict[str, Any]:
        """The cell as plain JSON, with its id."""
        return {"id": self.id, **self._meaning}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True)
class Plan:
    """What a sweep measures, in the order in which it does, and what it leaves out."""

    units: tuple[Unit, ...]
    skipped: tuple[Skipped, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of every unit."""
        return tuple(cell for unit in self.units for cell in unit.cells)


def describe(point: Mapping[str, Any]) -> str:
    """A grid point as text, e.g. `estimator=maxk baseline=none n=8 k=1`."""
    return " ".join(f"{axis}={point[axis]}" for axis in GRID_AXES)


def grid_points(grid: Grid) -> tuple[list[dict[str, Any]], list[Skipped]]:
    """The points of a grid that are measured, and those that cannot run or repeat another, with why."""
    points: dict[tuple[Any, ...], dict[str, Any]] = {}
    skipped: list[Skipped] = []
    for values in product(grid.estimator, grid.baseline, grid.n, grid.k):
        asked: dict[str, Any] = dict(zip(GRID_AXES, values, strict=True))
        reason = refusal(*values)
        # An estimator that takes no baseline runs once, whatever baselines the others are compared with.
        alone = not choose_estimator(asked["estimator"]).row.takes_baseline and "none" in grid.baseline
        if reason is not None and not alone:
            skipped.append(Skipped(asked, reason))
            continue
        point = (
            asked
            | {"k": effective_k(asked["estimator"], asked["k"])}
            | ({"baseline": "none"} if alone else {})
        )
        if alone and (reason := refusal(*point.values())) is not None:
            skipped.append(Skipped(asked, reason))
            continue
        key = tuple(point.values())
        if key in points:
            skipped.append(Skipped(asked, f"repeats {describe(point)}", repeats=point))
        else:
            points[key] = point
    return list(points.values()), skipped


def make_plan(spec: SweepSpec) -> Plan:
    """The plan of a validated spec: all seeds of a stage before the next, points in the order of the file."""
    points, skipped = grid_points(spec.gradient.grid)
    return Plan(tuple(_units(spec, points)), tuple(skipped))


def _units(spec: SweepSpec, points: list[dict[str, Any]]) -> Iterator[Unit]:
    study = spec.gradient
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
        }
        bare = Unit(**settings)
        yield Unit(**settings, cells=tuple(Cell(bare, **point) for point in points))
