"""From a sweep file to a validated spec, with all problems reported at once, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from maxk_lab.errors import Problem, SpecError
from maxk_lab.sweeps.checks import check_claims, check_grid, check_pool, resolve_environment
from maxk_lab.sweeps.claims import Claim
from maxk_lab.sweeps.overrides import FILE, apply_overrides
from maxk_lab.sweeps.problems import note_problems
from maxk_lab.sweeps.schema import GradientStudy, Grid, SweepSpec
from maxk_lab.sweeps.source import Source, read_source

__all__ = ["SweepSpec", "load_spec", "spec_to_yaml"]

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
    _check_study(spec, source)
    if source.problems or spec is None or resolved is None:
        raise SpecError(sorted(set(source.problems), key=_by_place))
    return spec.model_copy(update={"environment": resolved[0], "policy": resolved[1]})


def spec_to_yaml(spec: SweepSpec) -> str:
    """The resolved spec as a sweep file that `load_spec` reads back to the same spec."""
    import yaml

    return yaml.safe_dump(
        spec.model_dump(mode="json", exclude_none=True), sort_keys=False, allow_unicode=True, width=110
    )


def _check_study(spec: SweepSpec | None, source: Source) -> None:
    """The checks of the grid, pool and claims, as far as these are of the right shape."""
    study = source.tree.get("gradient")
    if not isinstance(study, Mapping):
        return
    grid = spec.gradient.grid if spec else _valid(Grid, study.get("grid"))
    if grid is None:
        return
    check_grid(grid, source)
    check_pool(spec.gradient.pool if spec else study.get("pool"), grid, source)
    whole = spec.gradient if spec else _valid(GradientStudy, study)
    claims = spec.claims if spec else _valid_claims(source.tree.get("claims", ()))
    if whole is not None:
        check_claims(claims, whole, source)


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
