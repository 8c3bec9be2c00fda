"""The studies of a sweep file with its figures and claims: everything that only their parts together can get wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from maxk_lab.sweeps.cells import STUDIES
from maxk_lab.sweeps.checks import (
    check_behaviour,
    check_complete,
    check_grid,
    check_kl,
    check_objective,
    check_pool,
    check_rewards,
    check_training,
)
from maxk_lab.sweeps.claim_checks import check_claims
from maxk_lab.sweeps.claims import Claim
from maxk_lab.sweeps.fields import Grid
from maxk_lab.sweeps.figures import Figure, axes_of_gradient, check_figures
from maxk_lab.sweeps.grid import Conditions, Point, grid_points, objective_points
from maxk_lab.sweeps.metrics import measured
from maxk_lab.sweeps.plan import settings_of_study
from maxk_lab.sweeps.schema import GradientStudy, ObjectiveGrid, ObjectiveStudy, WeightsStudy
from maxk_lab.sweeps.source import Source
from maxk_lab.sweeps.training_schema import TrainingStudy
from maxk_lab.sweeps.variation import Resolved, Variant

MODELS: dict[str, type[BaseModel]] = {
    "gradient": GradientStudy,
    "training": TrainingStudy,
    "objective": ObjectiveStudy,
    "weights": WeightsStudy,
}
# The studies that are made at every combination of what a sweep varies.
VARIED = ("gradient", "weights")
# Names that stand in for misspelt ones: they go with every setting.
NEUTRAL_NAMES = {"estimator": "maxk", "baseline": "none"}
Model = TypeVar("Model", bound=BaseModel)


def check_studies(source: Source, resolved: Resolved | None, found: list[Variant] | None) -> None:
    """The checks of the studies, the figures and the claims, as far as these are of the right shape."""
    written = {name: source.tree[name] for name in STUDIES if name in source.tree}
    if not written:
        source.add((), f"needs a study: {', '.join(STUDIES[:-1])} or {STUDIES[-1]}, or several")
    _check_varied(written, source)
    studies: dict[str, Any] = {}
    for name, study in written.items():
        valid = _valid(MODELS[name], study)
        if valid is not None:
            studies[name] = valid
        _check_grid_of(name, study, valid, source, resolved, found)
    if resolved is not None:
        _check_settings(studies, source, resolved, found)
    checked = studies.get("training") or _as_far_as_valid(written.get("training"))
    if checked is not None:
        check_training(checked, source)
        if resolved is not None:
            check_kl(checked, resolved[0], source)
    if len(studies) == len(written) > 0 and found is not None:
        points = {name: _points(study, found) for name, study in studies.items()}
        if not all(points.values()):
            return  # no figure and no claim can speak of a grid that cannot run, which has been said
        gradient = studies.get("gradient")
        known = () if gradient is None else measured(gradient.complete, gradient.off_policy)
        values = axes_of_gradient(points["gradient"]) if "gradient" in points else None
        check_figures(_all_valid(Figure, source.tree.get("figures", ())), values, known, source)
        check_claims(_all_valid(Claim, source.tree.get("claims", ())), points, studies, source)


def _check_varied(written: Mapping[str, Any], source: Source) -> None:
    """What a sweep varies is for studies that are made at every combination, and for no other."""
    others = [name for name in written if name not in VARIED]
    if source.tree.get("vary") and others:
        source.add(
            ("vary",),
            f"is for {' and '.join(VARIED)} studies; this sweep has a study of {' and '.join(others)} too, "
            "which belongs in a file of its own",
            key=True,
        )


def _check_grid_of(
    name: str,
    study: Any,
    valid: Any,
    source: Source,
    resolved: Resolved | None,
    found: list[Variant] | None,
) -> None:
    """The checks of a study's grid, which may be sound where the rest of the study is not."""
    model = ObjectiveGrid if name == "objective" else Grid
    grid: Any = _valid(model, study.get("grid")) if isinstance(study, Mapping) else None
    if grid is None:
        return
    environment = None if resolved is None else resolved[0]["name"]
    check_grid(grid, Conditions.of(valid, environment) if valid else Conditions(name, environment), source)
    if name == "objective":
        return
    for variant in found or ():
        before = len(source.problems)
        check_rewards(name, grid, variant.environment, source)
        if len(source.problems) > before:
            break
    if name == "gradient":
        check_pool(study.get("pool", GradientStudy.model_fields["pool"].default), grid, source)


def _check_settings(
    studies: Mapping[str, Any], source: Source, resolved: Resolved, found: list[Variant] | None
) -> None:
    """The checks of the gradient and the objective study that need the environment."""
    gradient, objective = studies.get("gradient"), studies.get("objective")
    if gradient is not None:
        for variant in found or ():
            before = len(source.problems)
            if gradient.complete:
                check_complete(variant.environment, variant.policy, source)
            check_behaviour(gradient, variant.environment, variant.policy, source)
            if len(source.problems) > before:
                break
    if objective is not None:
        check_objective(objective, *resolved, source)


def _points(study: Any, found: list[Variant]) -> list[dict[str, Any]]:
    """The points that a study measures, with their stage and setting where it has them."""
    sound = [variant for variant in found if variant.refusal is None]
    name = found[0].environment["name"]
    if isinstance(study, ObjectiveStudy):
        return objective_points(study.grid)[0]
    points: list[Point] = grid_points(study.grid, Conditions.of(study, name))[0]
    if isinstance(study, GradientStudy):
        settings = [setting for variant in sound for _, setting in settings_of_study(study, variant)]
        return [
            point | {"stage": stage, "setting": setting}
            for setting in settings
            for point in points
            for stage in study.stages
        ]
    if isinstance(study, WeightsStudy):
        return [point | {"setting": variant.setting} for variant in sound for point in points]
    return points


def _as_far_as_valid(study: Any) -> TrainingStudy | None:
    """A training study without its misspelt settings and names, so that one mistake does not hide the next."""
    if not isinstance(study, Mapping):
        return None
    kept, grid = dict(study), study.get("grid")
    kept["grid"] = dict(grid) if isinstance(grid, Mapping) else grid
    try:
        return TrainingStudy.model_validate(kept)
    except ValidationError as error:
        for finding in error.errors():
            key, *rest = finding["loc"]
            if key == "grid" and rest and rest[0] in NEUTRAL_NAMES:
                kept["grid"][rest[0]] = NEUTRAL_NAMES[str(rest[0])]
            elif key != "grid":
                kept.pop(key, None)
    return _valid(TrainingStudy, kept)


def _valid(model: type[Model], value: Any) -> Model | None:
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _all_valid(kind: Any, values: Any) -> tuple[Any, ...]:
    """Claims or figures; none where one of them is not of the right shape."""
    try:
        return tuple(TypeAdapter(tuple[kind, ...]).validate_python(values, strict=False))
    except ValidationError:
        return ()
