"""Looking after runs: what is done in one, what room it takes, and what of it may go.

Pruning never touches done cells of the run's spec, nor what a bundle takes along of the cache.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.execution.leases import drivers
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.content import changed_since
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.studies import STUDIES


@dataclass(frozen=True)
class Overview:
    """The state of a run on disk.

    Of the `planned` cells each is `done`, `failed`, `missing`, or has a record that is of no use.
    `stale` counts the records that the plan does not use, `damaged` those that are damaged. Where
    it is not known what is planned, `planned` and `missing` are None.
    `changed` is in seconds since 1970, `size` in bytes; `claims` says how many the sweep makes,
    `changed_since` what is no more as it was measured, such as a function of the user's own, with
    which the cells would not be done, and `wrong` what cannot be told.
    """

    name: str
    folder: Path
    changed: float
    description: str = ""
    planned: int | None = None
    done: int = 0
    failed: int = 0
    missing: int | None = None
    stale: int = 0
    damaged: int = 0
    size: int = 0
    claims: int = 0
    changed_since: tuple[str, ...] = ()
    wrong: str = ""


def overview(run: RunDirectory) -> Overview:
    """Return the overview of a run, also of one that is damaged."""
    known: dict[str, Any] = {"name": run.name, "folder": run.place, "changed": run.changed}
    planned: set[str] | None = None
    states: dict[str, str] = {}
    wrong = []
    try:
        spec = run.spec()
        known |= {"description": spec.description, "claims": len(spec.claims)}
        planned = {cell.id for cell in make_plan(spec).cells}
        known["changed_since"] = tuple(changed_since(spec))
    except LabError as error:
        wrong.append(str(error).splitlines()[0])
    try:
        states = {cell: head.status for cell, head in run.heads.items()}
    except LabError as error:
        wrong.append(str(error))
    counts = Counter(state for cell, state in states.items() if planned is None or cell in planned)
    return Overview(
        **known,
        planned=None if planned is None else len(planned),
        done=counts["done"],
        failed=counts["failed"],
        missing=None if planned is None else len(planned - states.keys()),
        stale=len(states) - counts["done"] - counts["failed"],
        damaged=len(run.problems),
        size=size_of(run.place),
        wrong="; ".join(wrong),
    )


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder, through no link in it."""
    files = [str(path)] if path.is_file() else []
    files += [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    size = 0
    for file in files:
        with suppress(OSError):  # gone meanwhile
            size += os.lstat(file).st_size
    return size


@dataclass(frozen=True)
class Prunable:
    """All that can go of a run, with the bytes of each on the disk.

    Records are `stale` by the ids of their cells, and `damaged` by what is wrong with a line of
    which nobody can tell the cell; `others` are files outside of the cache.
    """

    stale: Mapping[str, int]
    damaged: Mapping[str, int]
    cache: Mapping[Path, int]
    others: Mapping[Path, int]

    @property
    def size(self) -> int:
        """The bytes of all."""
        return sum(sum(part.values()) for part in vars(self).values())

    def __bool__(self) -> bool:
        return any(vars(self).values())


def prunable(run: RunDirectory, others: Iterable[Path] = ()) -> Prunable:
    """Return what can go of a run, with these `others`; nothing is changed.

    Raises `LabError` without a sound spec: what is stale is not known then.
    """
    plan = make_plan(run.spec())
    heads = run.heads
    states = {one: head.status for one, head in heads.items()}
    return Prunable(
        stale={one: heads[one].length for one in run.stale(plan)},
        damaged={one.why: one.length for one in run.store.damaged if not one.cell},
        cache={path: size_of(path) for path in _cache(run, plan, states)},
        others={path: size_of(path) for path in others},
    )


def prune(run: RunDirectory, others: Iterable[Path] = ()) -> Prunable:
    """Remove what `prunable` tells, and return it. Raises `LabError` while anybody works there.

    Whenever this is stopped, the run is whole, and the same call goes on.
    """
    run.for_writing("prune")
    if at_work := drivers(run.root):
        raise LabError(f"{run.root} is in use by {at_work[0]}; it stays as it is meanwhile")
    found = prunable(run, others)
    if found.stale or found.damaged:
        run.drop(found.stale.keys())
    for path in (*found.cache, *found.others):
        path.unlink(missing_ok=True)
    return found


def _cache(run: RunDirectory, plan: Plan, states: Mapping[str, str]) -> list[Path]:
    """Return the files of the cache that are spent, or of no unit of the plan."""
    kept, spent, needed = set[Path](), set[Path](), set[Path]()
    for unit in plan.units:
        done = all(states.get(cell.id) == "done" for cell in unit.cells)
        kept.update(run.cached(unit, "kept"))
        spent.update(run.cached(unit, "spent") if done else ())
        needed.update(run.cached(unit, "evaluation" if done else "kept"))
    shapes = (one for kind in STUDIES for one in getattr(kind.part("spec"), "SHAPES", ()))
    of_no_unit = {path for shape in shapes for path in run.cache_path.glob(shape)} - kept
    return sorted(path for path in (of_no_unit | spent) - needed if path.is_file())
