"""Loading a sweep file: a validated sweep, or all problems at once with their places."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError, shortened, shown
from maxk_lab.installed import look_beside
from maxk_lab.removed import removed_key, removed_value
from maxk_lab.sweep_file.checks import check_meaning, join, resolve_vary
from maxk_lab.sweep_file.content import content_of, files_in, rows_on_axes
from maxk_lab.sweep_file.findings import findings
from maxk_lab.sweep_file.model import Sweep, sweep_model
from maxk_lab.sweep_file.place import RECORDED
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.sweep_file.text import (
    LONGEST_MESSAGE,
    Source,
    merge_execution,
    read_source,
    set_values,
    source_of_mapping,
)
from maxk_lab.sweep_file.vary import short_names

__all__ = ["Sweep", "load_spec", "read_spec", "spec_to_yaml"]


def load_spec(
    sweep: str | Path | Mapping[str, Any] | Sweep,
    overrides: Iterable[str] = (),
    *,
    seeds_shifted_by: int = 0,
    execution: Path | None = None,
) -> Sweep:
    """Return the validated sweep of a YAML file, a mapping or another sweep.

    `execution` is a YAML file that is merged over `execution`. Then `overrides`, as in
    `gradient.pool=64`, are set; at last the seeds are shifted. Raises `SpecError` with every
    problem of its shape, or else of its meaning, as `file:line:column: path: message`, and
    `LabError` if there is no readable file, or a shifted seed is out of range.
    """
    look_beside(sweep if isinstance(sweep, str | Path) else None)
    if isinstance(sweep, str | Path):
        source = read_source(sweep)
    else:
        source = source_of_mapping(as_mapping(sweep) if isinstance(sweep, Sweep) else sweep)
    if execution is not None:
        merge_execution(source, execution)
    set_values(source, overrides)
    valid = _read_shape(source)
    source.raise_problems()
    valid = resolve_vary(valid, source)
    source.raise_problems()
    check_meaning(valid, source)
    source.raise_problems()
    seeds = tuple(seed + seeds_shifted_by for seed in valid.seeds)
    # A record of another seed could not be read again.
    if out := next((seed for seed in seeds if not 0 <= seed < 2**63), None):
        raise LabError(f"shifted seeds must be from 0 to 2^63 - 1, got {shown(out)}")
    valid = valid.model_copy(update={"seeds": seeds, "content": {}})
    return valid.model_copy(update={"content": content_of(valid)})


def _read_shape(source: Source) -> Sweep:
    """Return the sweep of a tree. Raises `SpecError` with all its problems."""
    tree = source.tree
    name = _name(tree)
    model = sweep_model(tree, name)
    if not any(kind in tree for kind in STUDIES.names()):
        source.add((), f"needs a study: {join(STUDIES.names(), 'or')}, or several")
    try:
        return model.model_validate(tree, context={"environment": name})
    except ValidationError as error:
        source.refuse(findings(error, model, tree, Sweep.in_order()))


def _name(tree: Mapping[str, Any]) -> str | None:
    """Return the environment's name in a sweep, None if it is not in the catalogue."""
    environment = tree.get("environment")
    name = environment.get("name") if isinstance(environment, Mapping) else None
    return name if isinstance(name, str) and name in ENVIRONMENTS else None


def read_spec(path: str | Path) -> Sweep:
    """Return the sweep that `spec_to_yaml` wrote, unchanged.

    Its rewards, environments and policies need not be installed. Removed keys are dropped. Raises
    `LabError` if the file cannot be read, or if its baselines or estimators are of a package that
    is not installed, and `SpecError` for another shape.
    """
    source = read_source(path)
    source.tree = _without_removed(source.tree)
    model = sweep_model(source.tree, _name(source.tree))
    try:
        return model.model_validate(source.tree, context=RECORDED)
    except ValidationError as error:
        _check_packages(source.tree)
        source.refuse(findings(error, model, source.tree, Sweep.in_order()))


def _check_packages(tree: Mapping[str, Any]) -> None:
    """Raise `LabError` for baselines and estimators of packages that are not installed."""
    lacking, content = [], tree.get("content")
    for key, (catalogue, name) in rows_on_axes(tree).items():
        if catalogue is not None and name not in catalogue:
            entry = content.get(key) if isinstance(content, Mapping) else None
            words = [entry[key] for key in ("package", "version") if key in entry] if entry else []
            lacking.append(f"{key} (package {' '.join(words) or 'not recorded'})")
    if lacking:
        names = shortened(", ".join(lacking), LONGEST_MESSAGE)
        raise LabError(
            f"to read the run, install what it was measured with and is missing here: {names}"
        )


def _without_removed(tree: Any, path: tuple[str, ...] = ()) -> Any:
    if isinstance(tree, list):
        return [_without_removed(entry, path) for entry in tree]
    if not isinstance(tree, dict):
        return tree

    def is_removed(key: str, value: Any) -> bool:
        place = (*path, key)  # the backend of a run does not affect its numbers
        in_execution = path == ("execution",)
        return bool(removed_key(place) or (in_execution and removed_value(place, value)))

    rest = {key: value for key, value in tree.items() if not is_removed(key, value)}
    return {key: _without_removed(value, (*path, key)) for key, value in rest.items()}


def spec_to_yaml(sweep: Sweep) -> str:
    """Return a sweep as a file that `load_spec` and `read_spec` read back to it.

    Files outside the current folder are written without their folders.
    """
    import yaml

    tree = as_mapping(sweep)
    words = {key: tree.pop(key) for key in ("name", "description")}
    names = short_names(filter(os.path.isabs, (*files_in(tree), *sweep.content)))

    def shorten(value: Any) -> Any:
        if isinstance(value, dict):
            return {shorten(key): shorten(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [shorten(entry) for entry in value]
        return names.get(value, value) if isinstance(value, str) else value

    return yaml.safe_dump(words | shorten(tree), sort_keys=False, allow_unicode=True, width=110)


def as_mapping(sweep: Sweep) -> dict[str, Any]:
    """Return a sweep as a mapping that `load_spec` reads back to it."""
    written = sweep.model_dump(mode="json", by_alias=True)
    # An axis that a claim does not name is omitted; a setting that is null is written.
    written["claims"] = [claim.model_dump(mode="json", exclude_none=True) for claim in sweep.claims]
    for kind in sweep.studies:
        grid = written[kind]["grid"]
        written[kind]["grid"] = grid[0] if len(grid) == 1 else grid
    if not sweep.content:
        del written["content"]
    return {key: written[key] for key in sweep.in_order() if key in written}
