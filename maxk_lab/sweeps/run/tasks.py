"""The tasks of a run: its units with the cells to measure, and what the cache keeps for them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from maxk_lab.errors import shown
from maxk_lab.files import write_atomically
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.store import Head
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.studies import STUDIES


@dataclass(frozen=True)
class Work:
    """The units to measure; `kept` are the files of the cache that cells are measured without."""

    tasks: Sequence[Task]
    kept: Mapping[str, Sequence[Path]] = field(default_factory=dict)


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
    return [
        Task(
            key=key,
            label=unit.label,
            shares=unit.shares,
            work=sum(unit.work().values()),
            unit=unit.as_dict(),
            cells=tuple(cell.as_dict() for cell in unit.cells),
            root=str(run.root.absolute()),
            measure=measure or f"{STUDIES.get(unit.study).implementation}.worker:measure",
            provenance=provenance,
            on_device=unit.on_device,
            attempt=1 + max(heads[c.id].attempt if c.id in heads else 0 for c in unit.cells),
        )
        for key, unit in units.items()
    ]


def forget(run: RunDirectory, again: Set[str], *, keep: Set[str]) -> None:
    """Remove what the cache holds for these cells and for nobody of `keep`, such as a pool.

    Names of pools do not tell the code that they were drawn with; what is left belongs to a cell of
    `keep` alone, such as its trained policy.
    """
    for path in list(run.cache_path.glob("*")):
        named = _words(path)
        if named & again or not named & keep:
            remove(path)


def kept_for(run: RunDirectory, again: Set[str]) -> dict[str, list[Path]]:
    """Return what the cache keeps of each of these cells alone, such as a trained policy.

    To be measured anew is not to resume.
    """
    found: dict[str, list[Path]] = {}
    for path in run.cache_path.glob("*") if again else ():
        for cell_id in _words(path) & again:
            found.setdefault(cell_id, []).append(path)
    return found


def remove(path: Path) -> None:
    """Remove a file or a folder of the cache, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def keep_in_cache(run: RunDirectory, name: str, data: bytes) -> None:
    """Write a file that has come from a node. Raises `ValueError` for one outside of the cache."""
    if Path(name).name != name or name.startswith("."):
        raise ValueError(f"{shown(name)} is no name of a file in the cache of a run")
    write_atomically(run.cache_path / name, data)


def _words(path: Path) -> set[str]:
    return set(re.split("[^0-9A-Za-z]+", path.name))
