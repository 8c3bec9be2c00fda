"""The grid of a study: which of its points are measured, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import (
    choose_estimator,
    effective_k,
    fit_of,
    is_ordered,
    is_token_level,
    needed_weight,
    needs_ratios,
    objective,
    refusal,
)
from maxk_lab.studies.training.schema import TrainingStudy
from maxk_lab.studies.weights.rewards_only import rewards_only_refusal
from maxk_lab.sweeps.plan.cells import GRID_AXES
from maxk_lab.sweeps.spec.fields import Grid
from maxk_lab.sweeps.spec.schema import GradientStudy, ObjectiveGrid, WeightsStudy
from maxk_lab.training.refusals import Weighting, fit_refusal, schedule_refusal
from maxk_lab.training.settings import KScheduleSettings

Point = dict[str, Any]


@dataclass(frozen=True)
class Skipped:
    """A grid point that is not measured. `repeats` holds the point measured instead, if there is one.

    Of a combination of varied settings that cannot run, `point` holds these settings.
    """

    point: Mapping[str, Any]
    reason: str
    repeats: Mapping[str, Any] | None = None
    study: str = "gradient"
    # The part of the point that the reason is about.
    axis: str = "k"

    def __str__(self) -> str:
        return f"{describe(self.point)}: {self.reason}"


@dataclass(frozen=True)
class Conditions:
    """What decides, besides a point itself, whether it can run; None is what is not known, and refuses nothing."""

    study: str = "gradient"
    environment: str | None = None
    complete: bool | None = None
    instances: int | None = None
    batch: int | None = None
    steps: int | None = None
    k_schedule: KScheduleSettings | None = None

    @classmethod
    def of(cls, study: Any, environment: str | None = None) -> Conditions:
        """Those of a study of a sweep file in the environment of this name."""
        if isinstance(study, GradientStudy):
            return cls("gradient", environment, study.complete, study.instances)
        if isinstance(study, TrainingStudy):
            return cls(
                "training",
                environment,
                batch=study.batch,
                steps=study.steps,
                k_schedule=study.k_schedule,
            )
        return cls("weights" if isinstance(study, WeightsStudy) else "objective", environment)


def describe(point: Mapping[str, Any]) -> str:
    """A grid point as text, e.g. `estimator=maxk baseline=none n=8 k=1`."""
    return " ".join(f"{axis}={value}" for axis, value in point.items())


def grid_points(
    grid: Grid | ObjectiveGrid, conditions: Conditions = Conditions()
) -> tuple[list[Point], list[Skipped]]:
    """The points of one grid that are measured, and those that cannot run or repeat another, with why."""
    if isinstance(grid, ObjectiveGrid):
        return _objective_points(grid)
    points, skipped = _grid_points(grid, conditions)
    return list(points), list(skipped)


def study_points(study: Any, environment: str) -> tuple[list[Point], list[Skipped]]:
    """The same of all grids of a study, other than of training, in the environment of this name."""
    points: dict[tuple[Any, ...], Point] = {}
    skipped: list[Skipped] = []
    conditions = Conditions.of(study, environment)
    for grid in study.grid:
        found, left_out = grid_points(grid, conditions)
        skipped += left_out
        for point in found:
            if tuple(point.values()) in points:
                skipped.append(repeated(point, conditions.study))
            points.setdefault(tuple(point.values()), point)
    return list(points.values()), skipped


def repeated(point: Point, study: str) -> Skipped:
    """A point that an earlier entry of the grid has, too."""
    return Skipped(
        point, f"repeats {describe(point)} of an earlier entry", repeats=point, study=study
    )


def _objective_points(grid: ObjectiveGrid) -> tuple[list[Point], list[Skipped]]:
    """Points of an objective study have no baseline, and their K for an n."""
    points: dict[tuple[Any, ...], Point] = {}
    skipped: list[Skipped] = []
    for estimator, k in product(grid.estimator, grid.k):
        asked: Point = {"estimator": estimator, "k": k}
        try:
            at_k = objective(estimator, k).k
        except LabError as error:
            skipped.append(Skipped(asked, str(error), study="objective"))
            continue
        if (estimator, at_k) in points:
            repeats = {"estimator": estimator, "k": at_k}
            skipped.append(Skipped(asked, f"repeats {describe(repeats)}", repeats, "objective"))
        else:
            points[estimator, at_k] = {
                "estimator": estimator,
                "baseline": "none",
                "n": at_k,
                "k": at_k,
            }
    return list(points.values()), skipped


# The checks of a spec, its claims and its plan all ask for the same grid.
@lru_cache(maxsize=8)
def _grid_points(
    grid: Grid, conditions: Conditions
) -> tuple[tuple[Point, ...], tuple[Skipped, ...]]:
    points: dict[tuple[Any, ...], Point] = {}
    skipped: list[Skipped] = []
    study = conditions.study
    for values in product(grid.estimator, grid.baseline, grid.n, grid.k):
        asked: Point = dict(zip(GRID_AXES, values, strict=True))
        found = _refusal(asked, conditions)
        # An estimator that takes no baseline runs once, whatever baselines the others are compared with.
        alone = (
            not choose_estimator(asked["estimator"]).row.takes_baseline and "none" in grid.baseline
        )
        if found is not None and not alone:
            skipped.append(Skipped(asked, found[1], study=study, axis=found[0]))
            continue
        point = (
            asked
            | {"k": effective_k(asked["estimator"], asked["k"])}
            | ({"baseline": "none"} if alone else {})
        )
        if alone and (found := _refusal(point, conditions)) is not None:
            skipped.append(Skipped(asked, found[1], study=study, axis=found[0]))
            continue
        key = tuple(point.values())
        if key in points:
            skipped.append(Skipped(asked, f"repeats {describe(point)}", repeats=point, study=study))
        else:
            points[key] = point
    return tuple(points.values()), tuple(skipped)


def _refusal(point: Point, conditions: Conditions) -> tuple[str, str] | None:
    """The axis that is at fault and why the point cannot run, or None."""
    estimator, baseline = point["estimator"], point["baseline"]
    if conditions.study == "weights" and is_ordered(estimator):
        return (
            "estimator",
            f"the weights of {estimator} depend on the order of drawing, and the rewards are shown in theirs",
        )
    if conditions.study != "training" and is_token_level(baseline):
        return "baseline", f"{baseline} gives one weight per token: training studies only"
    if (
        conditions.study == "weights"
        and (reason := rewards_only_refusal(estimator, baseline)) is not None
    ):
        return ("estimator" if needs_ratios(estimator) else "baseline"), reason
    reason = refusal(**point) or _schedule_refusal(point, conditions)
    if reason is not None:
        return "k", reason
    reason = _fit_refusal(point, conditions) or _weight_refusal(
        estimator, baseline, conditions.environment
    )
    return None if reason is None else ("baseline", reason)


def _schedule_refusal(point: Point, conditions: Conditions) -> str | None:
    """Return why the point cannot run with a K that the schedule of a training comes by."""
    if conditions.k_schedule is None:
        return None
    return schedule_refusal(Weighting(**point), conditions.k_schedule, conditions.steps)


def _fit_refusal(point: Point, conditions: Conditions) -> str | None:
    """Return why the coefficients of a fitted baseline cannot be fitted in this study."""
    if conditions.study == "training":
        return fit_refusal(Weighting(**point), conditions.batch)
    baseline, fit = point["baseline"], fit_of(point["estimator"], point["baseline"])
    instances = conditions.instances
    if fit == "oracle" and conditions.complete is False:
        return (
            f"{baseline} is fitted by complete enumeration: "
            "gradient studies with complete: true only"
        )
    if fit == "cross_fit" and instances is not None and instances < 2:
        return (
            f"{baseline} is fitted on other instances: "
            f"instances must be at least 2, got {instances}"
        )
    return None


def _weight_refusal(estimator: str, baseline: str, environment: str | None) -> str | None:
    """Why the trajectories of the environment lack the weight that the baseline needs."""
    kind = needed_weight(estimator, baseline)
    if kind is None or environment is None or environment not in ENVIRONMENTS:
        return None
    reason = ENVIRONMENTS.get(environment).refuses_weight(kind)
    return (
        None if reason is None else f"{baseline} needs the trajectory weight {kind}, and {reason}"
    )
