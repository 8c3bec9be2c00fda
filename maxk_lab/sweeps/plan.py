"""The plan of a sweep: which cells to measure, which of them share their samples, what to skip and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from maxk_lab.sweeps.cells import AnyUnit, Cell, ObjectiveUnit, TrainingUnit, Unit, WeightsUnit
from maxk_lab.sweeps.grid import Conditions, Point, Skipped, grid_points, objective_points
from maxk_lab.sweeps.schema import GradientStudy, SweepSpec
from maxk_lab.sweeps.variation import Variant, variants

__all__ = ["Plan", "Skipped", "make_plan", "settings_of_study"]


@dataclass(frozen=True)
class Plan:
    """What a sweep measures, in the order in which it does, and what it leaves out."""

    units: tuple[AnyUnit, ...]
    skipped: tuple[Skipped, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of every unit."""
        return tuple(cell for unit in self.units for cell in unit.cells)


def make_plan(spec: SweepSpec) -> Plan:
    """The plan of a validated spec: gradient, training, objective and weights study, each in the file's order."""
    units: list[AnyUnit] = []
    skipped: list[Skipped] = []
    name = spec.environment["name"]
    found = list(variants(spec.environment, spec.policy, spec.vary))
    sound = [variant for variant in found if variant.refusal is None]
    if spec.gradient is not None:
        points, left_out = grid_points(spec.gradient.grid, Conditions.of(spec.gradient, name))
        units += _gradient_units(spec, spec.gradient, sound, points)
        skipped += [*_refused(found, "gradient"), *left_out]
    if spec.training is not None:
        points, left_out = grid_points(spec.training.grid, Conditions.of(spec.training, name))
        units += _training_units(spec, points)
        skipped += left_out
    if spec.objective is not None:
        points, left_out = objective_points(spec.objective.grid)
        units += _objective_units(spec, points)
        skipped += left_out
    if spec.weights is not None:
        points, left_out = grid_points(spec.weights.grid, Conditions.of(spec.weights, name))
        units += _weights_units(spec, sound, points)
        skipped += [*_refused(found, "weights"), *left_out]
    return Plan(tuple(units), tuple(skipped))


def _refused(found: Sequence[Variant], study: str) -> list[Skipped]:
    return [Skipped(v.setting, v.refusal, study=study) for v in found if v.refusal is not None]


def settings_of_study(study: GradientStudy, variant: Variant) -> Iterator[tuple[float, dict[str, Any]]]:
    """(distance of the behaviour policy, setting) of every unit of the study at a variant."""
    for distance in study.behaviour.distance:
        yield distance, variant.setting | ({"behaviour.distance": distance} if study.off_policy else {})


def _gradient_units(
    spec: SweepSpec, study: GradientStudy, found: Sequence[Variant], points: Sequence[Point]
) -> Iterator[Unit]:
    """All seeds of a stage before the next stage, all stages of a setting before the next setting."""
    for variant in found:
        for (distance, setting), stage, seed in product(
            settings_of_study(study, variant), study.stages, spec.seeds
        ):
            settings: dict[str, Any] = {
                "environment": variant.environment,
                "policy": variant.policy,
                # What trains no policy must not tell two cells apart.
                "warmup": study.warmup.model_dump() if stage > 0 else {},
                "stage": stage,
                "seed": seed,
                "instances": study.instances,
                "pool": study.pool,
                "partitions": study.partitions,
                "complete": study.complete,
                "distance": distance,
                "setting": setting,
            }
            bare = Unit(**settings)
            yield Unit(**settings, cells=_cells(bare, points))


def _training_units(spec: SweepSpec, points: Sequence[Point]) -> Iterator[TrainingUnit]:
    """All points of a seed before the next seed, so that an unfinished sweep has whole seeds to compare."""
    assert spec.training is not None
    training = spec.training.settings()
    for seed, point in product(spec.seeds, points):
        bare = TrainingUnit(dict(spec.environment), dict(spec.policy), seed, training)
        yield TrainingUnit(bare.environment, bare.policy, seed, training, cells=_cells(bare, [point]))


def _objective_units(spec: SweepSpec, points: Sequence[Point]) -> Iterator[ObjectiveUnit]:
    assert spec.objective is not None
    objective = spec.objective.model_dump(mode="json", by_alias=True, exclude={"grid"})
    for seed in spec.seeds:
        bare = ObjectiveUnit(dict(spec.environment), dict(spec.policy), seed, objective)
        yield ObjectiveUnit(bare.environment, bare.policy, seed, objective, cells=_cells(bare, points))


def _weights_units(
    spec: SweepSpec, found: Sequence[Variant], points: Sequence[Point]
) -> Iterator[WeightsUnit]:
    assert spec.weights is not None
    for variant, seed in product(found, spec.seeds):
        settings = (variant.environment, variant.policy, seed, spec.weights.groups, variant.setting)
        yield WeightsUnit(*settings, cells=_cells(WeightsUnit(*settings), points))


def _cells(unit: AnyUnit, points: Sequence[Point]) -> tuple[Cell, ...]:
    return tuple(Cell(unit, **point) for point in points)
