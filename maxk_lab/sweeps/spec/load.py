"""From a sweep file to a validated spec, with all problems reported at once, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from maxk_lab.errors import Problem, SpecError
from maxk_lab.sweeps.plan.cells import STUDIES
from maxk_lab.sweeps.spec.environment import resolve_environment
from maxk_lab.sweeps.spec.file_checks import check_checkpoints, resolve_data
from maxk_lab.sweeps.spec.overrides import FILE, apply_overrides
from maxk_lab.sweeps.spec.problems import note_problems
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.source import read_source
from maxk_lab.sweeps.spec.studies import check_studies
from maxk_lab.sweeps.spec.variation import resolve_vary, variants

__all__ = ["SweepSpec", "load_spec", "read_spec", "spec_to_yaml"]


def load_spec(path: str | Path, overrides: Iterable[str] = ()) -> SweepSpec:
    """The spec in the YAML file `path`, with `overrides` such as `gradient.pool=64` set over it.

    Raises `SpecError` with every problem as `file:line:column: path: message`, and `LabError` if there is no
    readable file. Problems of overrides carry the file `--set` and the number of the option as line.
    """
    source = read_source(path)
    apply_overrides(source, list(overrides))
    resolve_data(source)
    spec: SweepSpec | None = None
    try:
        spec = SweepSpec.model_validate(source.tree)
    except ValidationError as error:
        note_problems(error, source)
    resolved = resolve_environment(source)
    vary = None if resolved is None else resolve_vary(source, resolved)
    found = None if resolved is None or vary is None else list(variants(*resolved, vary))
    check_studies(source, resolved, found)
    check_checkpoints(found or (), source)
    if source.problems or spec is None or resolved is None:
        raise SpecError(sorted(set(source.problems), key=_by_place))
    return spec.model_copy(update={"environment": resolved[0], "policy": resolved[1], "vary": vary})


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

    tree = spec.model_dump(mode="json", by_alias=True)
    # What a claim or a sweep does not speak of is left out; a setting that is null says so.
    tree["claims"] = [claim.model_dump(mode="json", exclude_none=True) for claim in spec.claims]
    for study in STUDIES:
        if tree[study] is None:
            del tree[study]
        elif len(tree[study]["grid"]) == 1:
            (tree[study]["grid"],) = tree[study]["grid"]
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)


def _by_place(problem: Problem) -> tuple[bool, int, int, str, str]:
    return problem.file == FILE, problem.line, problem.column, problem.path, problem.message
