"""The plan of a sweep: which cells to measure, which of them share their samples, what to skip and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from maxk_lab.studies.training.grid import training_points
from maxk_lab.studies.training.schema import TrainingStudy
from maxk_lab.sweeps.plan.cells import AnyUnit, Cell, ObjectiveUnit, TrainingUnit, Unit, WeightsUnit
from maxk_lab.sweeps.plan.grid import Conditions, Point, Skipped, study_points
from maxk_lab.sweeps.spec.schema import (
    AnyStudy,
    GradientStudy,
    ObjectiveStudy,
    SweepSpec,
    WeightsStudy,
)
from maxk_lab.sweeps.spec.variation import Variant, variants

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
    found = list(variants(spec.environment, spec.policy, spec.vary))
    sound = [variant for variant in found if variant.refusal is None]
    if spec.gradient is not None:
        units += _gradient_units(spec, spec.gradient, sound)
        skipped += _left_out(spec.gradient, found)
    if spec.training is not None:
        units += _training_units(spec, spec.training, sound)
        skipped += _left_out(spec.training, found)
    if spec.objective is not None:
        units += _objective_units(spec, spec.objective, sound)
        skipped += _left_out(spec.objective, found)
    if spec.weights is not None:
        units += _weights_units(spec, spec.weights, sound)
        skipped += _left_out(spec.weights, found)
    return Plan(tuple(units), tuple(skipped))


def _left_out(study: AnyStudy, found: Sequence[Variant]) -> list[Skipped]:
    """Settings that cannot run, and points of the grid that cannot or are there already, each told once."""
    name = Conditions.of(study).study
    skipped = [Skipped(v.setting, v.refusal, study=name) for v in found if v.refusal is not None]
    for environment in dict.fromkeys(v.environment["name"] for v in found if v.refusal is None):
        _, left_out = (
            training_points(study, environment)
            if isinstance(study, TrainingStudy)
            else study_points(study, environment)
        )
        skipped += [one for one in left_out if one not in skipped]
    return skipped


def settings_of_study(
    study: GradientStudy, variant: Variant
) -> Iterator[tuple[float, dict[str, Any]]]:
    """(distance of the behaviour policy, setting) of every unit of the study at a variant."""
    for distance in study.behaviour.distance:
        yield (
            distance,
            variant.setting | ({"behaviour.distance": distance} if study.off_policy else {}),
        )


def _gradient_units(
    spec: SweepSpec, study: GradientStudy, found: Sequence[Variant]
) -> Iterator[Unit]:
    """All seeds of a stage before the next stage, all stages of a setting before the next setting."""
    for variant in found:
        points, _ = study_points(study, variant.environment["name"])
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


def _training_units(
    spec: SweepSpec, study: TrainingStudy, found: Sequence[Variant]
) -> Iterator[TrainingUnit]:
    """All settings and points of a seed before the next seed, so that an unfinished sweep has whole seeds to compare."""
    for seed, variant in product(spec.seeds, found):
        for training in training_points(study, variant.environment["name"])[0]:
            setting = {**variant.setting, **training.setting}
            settings = (variant.environment, variant.policy, seed, training.settings, setting)
            yield TrainingUnit(*settings, cells=_cells(TrainingUnit(*settings), [training.point]))


def _objective_units(
    spec: SweepSpec, study: ObjectiveStudy, found: Sequence[Variant]
) -> Iterator[ObjectiveUnit]:
    objective = study.model_dump(mode="json", by_alias=True, exclude={"grid"})
    for variant, seed in product(found, spec.seeds):
        points, _ = study_points(study, variant.environment["name"])
        settings = (variant.environment, variant.policy, seed, objective)
        yield ObjectiveUnit(*settings, cells=_cells(ObjectiveUnit(*settings), points))


def _weights_units(
    spec: SweepSpec, study: WeightsStudy, found: Sequence[Variant]
) -> Iterator[WeightsUnit]:
    for variant, seed in product(found, spec.seeds):
        points, _ = study_points(study, variant.environment["name"])
        settings = (variant.environment, variant.policy, seed, study.groups, variant.setting)
        yield WeightsUnit(*settings, cells=_cells(WeightsUnit(*settings), points))


def _cells(unit: AnyUnit, points: Sequence[Point]) -> tuple[Cell, ...]:
    return tuple(Cell(unit, **point) for point in points)
