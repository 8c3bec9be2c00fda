"""The way from a sweep file to a validated spec, with all problems told at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError, Problem, SpecError, shortened, shown
from maxk_lab.installed import look_beside
from maxk_lab.sweep_file.blocks import read_parts
from maxk_lab.sweep_file.checks import check_checkpoints, check_counts, check_studies
from maxk_lab.sweep_file.content import content_of, rows_on_axes, texts_in
from maxk_lab.sweep_file.environment import resolve_environment, resolve_files
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.overrides import apply_execution, apply_overrides, check_execution
from maxk_lab.sweep_file.schema import SweepSpec, listed
from maxk_lab.sweep_file.source import (
    LONGEST_MESSAGE,
    Source,
    at_path,
    read_source,
    source_of_mapping,
)
from maxk_lab.sweep_file.variation import resolve_vary, short_names

__all__ = ["SweepSpec", "load_spec", "read_spec", "spec_to_yaml"]


def load_spec(
    given: str | Path | Mapping[str, Any] | SweepSpec,
    overrides: Iterable[str] = (),
    *,
    seeds_shifted_by: int = 0,
    execution: Path | None = None,
) -> SweepSpec:
    """Return the spec in a YAML file, `overrides` set over it and then its seeds shifted.

    It may be given as a mapping, too, as YAML would be read, or as a spec to be changed.
    An override is as in `gradient.pool=64`. `execution` is a YAML file that is merged over
    `execution` of the sweep, before the overrides. Raises `SpecError` with every problem as
    `file:line:column: path: message`, and `LabError` if there is no readable file. Problems of
    overrides carry the file `--set` and the number of the option as line.
    """
    if isinstance(given, str | Path):
        look_beside(given)
        source = read_source(given)
    elif isinstance(given, Mapping):
        look_beside(None)
        source = source_of_mapping(given)
    elif isinstance(given, SweepSpec):
        source = source_of_mapping(spec_as_mapping(given))
    else:
        raise LabError(f"a sweep is a file, a mapping or a SweepSpec, got {shown(given)}")
    apply_execution(source, execution)
    apply_overrides(source, overrides)
    _resolve_seeds(source, seeds_shifted_by)
    resolve_files(source)
    check_execution(source, execution)
    spec = read_parts(source)
    of_shape = {problem.path for problem in source.problems}
    check_counts(spec, source)
    resolved = resolve_environment(source)
    varied = None if resolved is None else resolve_vary(source, resolved)
    vary, found = varied or (None, None)
    before = len(source.problems)
    check_studies(spec, resolved, found, source)
    # Of a value that is of no right shape a default was looked at in its place.
    later = [one for one in source.problems[before:] if one.path not in of_shape]
    source.problems[before:] = later
    if not source.problems:
        # It makes the policies, which may be of a size that has just been refused.
        check_checkpoints(found or (), source)
    if source.problems or resolved is None:
        raise _problems(source)
    environment, policy = resolved
    spec = spec.model_copy(update={"environment": environment, "policy": policy, "vary": vary})
    return spec.model_copy(update={"content": content_of(spec)})


def read_spec(path: str | Path) -> SweepSpec:
    """Return the resolved spec that `spec_to_yaml` wrote, as it is.

    Rewards, environments and policies that it names need not be installed to report on a run.
    Raises `SpecError` where it is not of the shape of a spec, and `LabError` if there is no file
    that can be read, or if its baselines or estimators are of a package that is not installed.
    """
    source = read_source(path)
    spec = read_parts(source)
    if not source.problems:
        return spec
    lacking = []
    for key, (catalogue, name) in rows_on_axes(source.tree).items():
        if catalogue is not None and name not in catalogue:
            origin = (
                at_path(source.tree, ("content", key, part)) for part in ("package", "version")
            )
            package = " ".join(str(one) for one in origin if one) or "not recorded"
            lacking.append(f"{key} (package {package})")
    if lacking:
        what = shortened(", ".join(lacking), LONGEST_MESSAGE)
        raise LabError(
            f"to read the run, install what it was measured with and is missing here: {what}"
        )
    raise _problems(source)


def spec_to_yaml(spec: SweepSpec) -> str:
    """Return the resolved spec as a sweep file that `load_spec` and `read_spec` read back to it.

    Files of other folders than the current one are named without these.
    """
    import yaml

    tree = _without_places(spec_as_mapping(spec))
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)


def spec_as_mapping(spec: SweepSpec) -> dict[str, Any]:
    """Return the resolved spec as a mapping that `load_spec` reads back to it."""
    written = spec.model_dump(mode="json", by_alias=True)
    # An axis that a claim does not speak of is left out; a setting that is null says so.
    written["claims"] = [claim.model_dump(mode="json", exclude_none=True) for claim in spec.claims]
    for kind in spec.studies:
        grid = written[kind]["grid"]
        written[kind]["grid"] = grid[0] if len(grid) == 1 else grid
    if not spec.content:
        del written["content"]
    return {key: written[key] for key in spec.in_order() if key in written}


def _without_places(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the tree with short names in place of the paths from the root in it."""

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {named(key): named(one) for key, one in value.items()}
        if isinstance(value, list):
            return [named(one) for one in value]
        return names.get(value, value) if isinstance(value, str) else value

    in_words = {key: tree[key] for key in ("name", "description") if key in tree}
    names = short_names(filter(os.path.isabs, texts_in(tree | dict.fromkeys(in_words))))
    return {**named(tree), **in_words}


def spec_hash_without_execution(spec: SweepSpec) -> str:
    """Return a hash of all that a resolved spec says but of its execution.

    Two runs of equal hashes measure the same cells, wherever and within whatever limits.
    """
    anywhere = spec.model_copy(update={"execution": Execution()})
    return hashlib.sha256(spec_to_yaml(anywhere).encode()).hexdigest()[:16]


def _resolve_seeds(source: Source, shifted_by: int) -> None:
    """Write the seeds of the tree as a list and add `shifted_by` to each.

    What can be no seed stays, for validation to name.
    """
    try:
        seeds = listed(source.tree["seeds"])
    except (KeyError, ValueError):
        return
    source.tree["seeds"] = [
        seed + shifted_by if type(seed) is int and seed >= 0 else seed for seed in seeds
    ]


def _problems(source: Source) -> SpecError:
    """Return the error with all problems: of the sweep file, of `--execution`, then options."""

    def by_place(problem: Problem) -> tuple[bool, bool, int, int, str, str]:
        elsewhere = problem.file.startswith("--"), problem.file != source.file
        return *elsewhere, problem.line, problem.column, problem.path, problem.message

    return SpecError(sorted(set(source.problems), key=by_place))
