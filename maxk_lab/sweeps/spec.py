"""From a sweep file to a validated spec, with all problems reported at once, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from maxk_lab.errors import Problem, SpecError
from maxk_lab.sweeps.checks import (
    check_complete,
    check_grid,
    check_kl,
    check_pool,
    check_rewards,
    check_training,
)
from maxk_lab.sweeps.claim_checks import check_claims
from maxk_lab.sweeps.claims import Claim
from maxk_lab.sweeps.environment_check import resolve_environment
from maxk_lab.sweeps.fields import Grid
from maxk_lab.sweeps.overrides import FILE, apply_overrides
from maxk_lab.sweeps.problems import note_problems
from maxk_lab.sweeps.schema import GradientStudy, SweepSpec
from maxk_lab.sweeps.source import Source, read_source
from maxk_lab.sweeps.training_schema import TrainingStudy

__all__ = ["SweepSpec", "load_spec", "read_spec", "spec_to_yaml"]

STUDIES: dict[str, type[BaseModel]] = {"gradient": GradientStudy, "training": TrainingStudy}
# Names that stand in for misspelt ones: they go with every setting.
NEUTRAL_NAMES = {"estimator": "maxk", "baseline": "none"}
Model = TypeVar("Model", bound=BaseModel)


def load_spec(path: str | Path, overrides: Iterable[str] = ()) -> SweepSpec:
    """The spec in the YAML file `path`, with `overrides` such as `gradient.pool=64` set over it.

    Raises `SpecError` with every problem as `file:line:column: path: message`, and `LabError` if there is no
    readable file. Problems of overrides carry the file `--set` and the number of the option as line.
    """
    source = read_source(path)
    apply_overrides(source, list(overrides))
    spec: SweepSpec | None = None
    try:
        spec = SweepSpec.model_validate(source.tree)
    except ValidationError as error:
        note_problems(error, source)
    resolved = resolve_environment(source)
    _check_studies(source, resolved)
    if source.problems or spec is None or resolved is None:
        raise SpecError(sorted(set(source.problems), key=_by_place))
    return spec.model_copy(update={"environment": resolved[0], "policy": resolved[1]})


def read_spec(path: str | Path) -> SweepSpec:
    """The resolved spec that `spec_to_yaml` wrote, as it is: what it names need not be installed to report on a run.

    Raises `SpecError` where it is not of the shape of a spec, and `LabError` if there is no readable file.
    """
    source = read_source(path)
    try:
        return SweepSpec.model_validate(source.tree)
    except ValidationError as error:
        note_problems(error, source)
        raise SpecError(sorted(set(source.problems), key=_by_place)) from None


def spec_to_yaml(spec: SweepSpec) -> str:
    """The resolved spec as a sweep file that `load_spec` and `read_spec` read back to the same spec."""
    import yaml

    tree = spec.model_dump(mode="json")
    # What a claim or a sweep does not speak of is left out; a setting that is null says so.
    tree["claims"] = [claim.model_dump(mode="json", exclude_none=True) for claim in spec.claims]
    for study in STUDIES:
        if tree[study] is None:
            del tree[study]
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)


def _check_studies(source: Source, resolved: tuple[dict[str, Any], dict[str, Any]] | None) -> None:
    """The checks of the studies and the claims, as far as these are of the right shape."""
    written = {name: source.tree[name] for name in STUDIES if name in source.tree}
    if not written:
        source.add((), f"needs a study: {' or '.join(STUDIES)}, or both")
    for name, study in written.items():
        grid = _valid(Grid, study.get("grid")) if isinstance(study, Mapping) else None
        if grid is not None:
            check_grid(name, grid, source)
            if resolved is not None:
                check_rewards(name, grid, resolved[0], source)
            if name == "gradient":
                check_pool(study.get("pool", GradientStudy.model_fields["pool"].default), grid, source)
    gradient = _valid(GradientStudy, written.get("gradient"))
    training = _valid(TrainingStudy, written.get("training"))
    if gradient is not None and gradient.complete and resolved is not None:
        check_complete(*resolved, source)
    checked = training or _as_far_as_valid(written.get("training"))
    if checked is not None:
        check_training(checked, source)
        if resolved is not None:
            check_kl(checked, resolved[0], source)
    if len([study for study in (gradient, training) if study is not None]) == len(written) > 0:
        check_claims(_valid_claims(source.tree.get("claims", ())), gradient, training, source)


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


def _valid_claims(claims: Any) -> tuple[Any, ...]:
    try:
        return tuple(TypeAdapter(tuple[Claim, ...]).validate_python(claims, strict=False))
    except ValidationError:
        return ()


def _by_place(problem: Problem) -> tuple[bool, int, int, str, str]:
    return problem.file == FILE, problem.line, problem.column, problem.path, problem.message
