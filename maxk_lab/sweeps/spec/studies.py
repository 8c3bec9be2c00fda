"""The studies of a sweep file with its figures and claims: everything that only their parts together can get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from maxk_lab.studies.training.checks import check_training, check_training_in
from maxk_lab.studies.training.grid import training_points
from maxk_lab.studies.training.schema import TrainingGrid, TrainingStudy
from maxk_lab.sweeps.plan.cells import STUDIES
from maxk_lab.sweeps.plan.grid import Conditions, Point, study_points
from maxk_lab.sweeps.plan.plan import settings_of_study
from maxk_lab.sweeps.spec.checks import (
    check_behaviour,
    check_complete,
    check_grid,
    check_objective,
    check_pool,
    check_rewards,
)
from maxk_lab.sweeps.spec.claims.checks import check_claims
from maxk_lab.sweeps.spec.claims.shapes import Claim
from maxk_lab.sweeps.spec.fields import Grid
from maxk_lab.sweeps.spec.figures import Figure, axes_of_gradient, check_figures
from maxk_lab.sweeps.spec.metrics import measured
from maxk_lab.sweeps.spec.schema import GradientStudy, ObjectiveGrid, ObjectiveStudy, WeightsStudy
from maxk_lab.sweeps.spec.source import Source, TreePath, entry_path
from maxk_lab.sweeps.spec.variation import Resolved, Variant

MODELS: dict[str, type[BaseModel]] = {
    "gradient": GradientStudy,
    "training": TrainingStudy,
    "objective": ObjectiveStudy,
    "weights": WeightsStudy,
}
# The studies that are made at every combination of what a sweep varies.
VARIED = ("gradient", "training", "weights")
GRIDS: dict[str, type[BaseModel]] = {"training": TrainingGrid, "objective": ObjectiveGrid}
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
        if isinstance(study, Mapping):
            _check_grids(name, study, valid, source, found)
    if resolved is not None:
        _check_settings(studies, source, resolved, found)
    checked = studies.get("training") or _as_far_as_valid(written.get("training"))
    if checked is not None:
        check_training(checked, source)

        def check_in(variant: Variant) -> None:
            check_training_in(checked, variant.environment, variant.policy, source)

        _at_first(found, source, check_in)
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
            f"is for {', '.join(VARIED[:-1])} and {VARIED[-1]} studies; this sweep has a study of {' and '.join(others)} too, "
            "which belongs in a file of its own",
            key=True,
        )


def _check_grids(
    name: str, study: Mapping[str, Any], valid: Any, source: Source, found: list[Variant] | None
) -> None:
    """The checks of the entries of a study's grid, which may be sound where the rest of the study is not."""
    written = study.get("grid")
    sizes: list[int] = []
    for number, entry in enumerate(written if isinstance(written, list) else [written]):
        grid: Any = _valid(GRIDS.get(name, Grid), entry)
        if grid is None:
            continue
        path = entry_path(source, name, number)
        own = valid.of_entry(grid) if isinstance(valid, TrainingStudy) else valid
        _at_first(found or [None], source, partial(_check_grid_in, name, grid, own, path, source))
        sizes += () if name == "objective" else grid.n
    if name == "gradient":
        check_pool(study.get("pool", GradientStudy.model_fields["pool"].default), sizes, source)


def _check_grid_in(
    name: str, grid: Any, study: Any, path: TreePath, source: Source, variant: Variant | None
) -> None:
    environment = None if variant is None else variant.environment["name"]
    conditions = Conditions.of(study, environment) if study else Conditions(name, environment)
    check_grid(grid, conditions, path, source)
    if name != "objective" and variant is not None:
        check_rewards(grid, variant.environment, path, source)


def _check_settings(
    studies: Mapping[str, Any], source: Source, resolved: Resolved, found: list[Variant] | None
) -> None:
    """The checks of the gradient and the objective study that need the environment."""
    gradient, objective = studies.get("gradient"), studies.get("objective")
    if gradient is not None:

        def check(variant: Variant) -> None:
            if gradient.complete:
                check_complete(variant.environment, variant.policy, source)
            check_behaviour(gradient, variant.environment, variant.policy, source)

        _at_first(found, source, check)
    if objective is not None:
        check_objective(objective, *resolved, source)


def _at_first(found: Sequence[Any] | None, source: Source, check: Callable[[Any], None]) -> None:
    """Check variants until one has a problem: the others would have the same."""
    for variant in found or ():
        before = len(source.problems)
        check(variant)
        if len(source.problems) > before:
            break


def _points(study: Any, found: list[Variant]) -> list[dict[str, Any]]:
    """The points that a study measures, with their stage and setting where it has them."""
    points: list[Point] = []
    for variant in found:
        if variant.refusal is not None:
            continue
        name = variant.environment["name"]
        if isinstance(study, TrainingStudy):
            points += [
                training.point | {"setting": {**variant.setting, **training.setting}}
                for training in training_points(study, name)[0]
            ]
        elif isinstance(study, GradientStudy):
            points += [
                point | {"stage": stage, "setting": setting}
                for _, setting in settings_of_study(study, variant)
                for point in study_points(study, name)[0]
                for stage in study.stages
            ]
        elif isinstance(study, ObjectiveStudy):
            points += study_points(study, name)[0]
        else:
            points += [
                point | {"setting": variant.setting} for point in study_points(study, name)[0]
            ]
    return points


def _as_far_as_valid(study: Any) -> TrainingStudy | None:
    """A training study without its misspelt settings and names, so that one mistake does not hide the next."""
    if not isinstance(study, Mapping):
        return None
    kept = dict(study)
    written = study.get("grid")
    kept["grid"] = [
        dict(entry) if isinstance(entry, Mapping) else entry
        for entry in (written if isinstance(written, list) else [written])
    ]
    try:
        return TrainingStudy.model_validate(kept)
    except ValidationError as error:
        for finding in error.errors():
            key, *rest = finding["loc"]
            if key != "grid":
                kept.pop(str(key), None)
            elif len(rest) > 1 and rest[1] in NEUTRAL_NAMES:
                kept["grid"][int(rest[0])][rest[1]] = NEUTRAL_NAMES[str(rest[1])]
            elif len(rest) > 1 and rest[1] == "with":
                kept["grid"][int(rest[0])].pop("with", None)
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
