"""The tasks of a run: its units with the cells to measure, and what the cache keeps for them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import shown
from maxk_lab.files import write_atomically
from maxk_lab.policies.catalogue import POLICIES, PRETRAINED_FOLDER
from maxk_lab.sweeps.plan.content import function_paths, named_on_axes
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.store import Head
from maxk_lab.sweeps.studies import STUDIES

# The packages whose modules are imported for all units at once, without a user's code.
_OURS = ("maxk_lab", "transformers")


def tasks_of(
    plan: Plan,
    to_do: Set[str],
    run: RunDirectory,
    measure: str | None,
    heads: Mapping[str, Head],
) -> list[Task]:
    """Return a task for each unit of the plan with a cell to do, without its other cells.

    `measure` names the `module:function` that measures them, in place of that of their studies;
    `heads` are those of the records that were there when it was decided what is to do.
    """
    units = {
        unit.id: replace(unit, cells=tuple(cell for cell in unit.cells if cell.id in to_do))
        for unit in plan.units
        if any(cell.id in to_do for cell in unit.cells)
    }
    provenance = collect_provenance() if units else {}
    tasks = []
    for key, unit in units.items():
        data, cells = unit.as_dict(), tuple(cell.as_dict() for cell in unit.cells)
        modules = {measure.partition(":")[0]} if measure else _modules(unit.study, data, cells)
        lab = {module for module in modules if module.partition(".")[0] in _OURS}
        task = Task(
            key=key,
            label=unit.label,
            shares=unit.shares,
            work=sum(unit.work().values()),
            unit=data,
            cells=cells,
            root=str(run.root.absolute()),
            measure=measure or f"{STUDIES.get(unit.study).implementation}.work:measure",
            provenance=provenance,
            lab=tuple(sorted(lab)),
            own=tuple(sorted(modules - lab)),
            on_device=unit.on_device,
            attempt=1 + max(heads[c.id].attempt if c.id in heads else 0 for c in unit.cells),
        )
        tasks.append(task)
    return tasks


def _modules(study: str, unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the modules that a unit needs: of its study, its rows, and the user's functions."""
    home, folder = STUDIES.get(study).implementation, PRETRAINED_FOLDER
    environment, policy = unit["environment"], unit["policy"]
    row = ENVIRONMENTS.get(environment["name"])
    rows: list[tuple[Catalogue[Any], str]] = [
        (ENVIRONMENTS, row.name),
        (POLICIES, policy.get("name", row.policies[0])),
    ]
    rows += row.named(environment)
    for cell in cells:
        rows += named_on_axes(cell).values()
    paths = {f"{home}.work", f"{home}.record", *function_paths(unit), *function_paths(cells)}
    paths |= {catalogue.get(name).implementation for catalogue, name in rows}
    paths |= {"transformers"} if policy.get(folder) else set()
    return {path.partition(":")[0] for path in paths}


def clear_cache(run: RunDirectory, again: Set[str], *, shared: bool, keep: Set[str]) -> None:
    """Remove what the cache holds of these cells alone: to be measured anew is not to resume.

    With `shared` that goes as well which is of nobody of `keep`, such as a pool, since its name
    does not tell the code that it was drawn with.
    """
    for path in list(run.cache_path.glob("*")):
        named = set(re.split("[^0-9A-Za-z]+", path.name))
        if named & again or (shared and not named & keep):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def keep_in_cache(run: RunDirectory, name: str, data: bytes) -> None:
    """Write a file that has come from a node. Raises `ValueError` for one outside of the cache."""
    if Path(name).name != name or name.startswith("."):
        raise ValueError(f"{shown(name)} is no name of a file in the cache of a run")
    write_atomically(run.cache_path / name, data)
