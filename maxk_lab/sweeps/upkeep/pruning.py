"""Pruning: what a run holds that neither it nor its report needs any more, and its removal.

Done cells of the run's spec are never touched, nor what a bundle takes along of the cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.files import PARTIAL
from maxk_lab.sweeps.plan.cells import Unit
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.backends.jobs import any_may_run
from maxk_lab.sweeps.run.leases import drivers
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.studies import STUDIES
from maxk_lab.sweeps.upkeep.overview import size_of

_Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Prunable:
    """All that can go of a run, with the bytes of each on the disk.

    Records are `stale` by the ids of their cells, `others` are files outside of its cache.
    """

    stale: Mapping[str, int]
    cache: Mapping[Path, int]
    others: Mapping[Path, int]

    @property
    def size(self) -> int:
        """The bytes of all."""
        return sum(sum(part.values()) for part in (self.stale, self.cache, self.others))

    def __bool__(self) -> bool:
        return bool(self.stale or self.cache or self.others)


def prunable(run: RunDirectory, others: Iterable[Path] = ()) -> Prunable:
    """Return what can go of a run, with these `others`; nothing is changed.

    Raises `LabError` without a sound spec: what is stale is not known then.
    """
    plan = make_plan(run.spec())
    heads = run.heads
    states = {one: head.status for one, head in heads.items()}
    return Prunable(
        stale={one: heads[one].length for one in run.stale(plan)},
        cache={path: size_of(path) for path in _cache(run, plan, states)},
        others={path: size_of(path) for path in others},
    )


def prune(run: RunDirectory, others: Iterable[Path] = ()) -> Prunable:
    """Remove what `prunable` tells, and return it. Raises `LabError` while anybody works there.

    Whenever this is stopped, the run is whole, and the same call goes on.
    """
    run.for_writing("prune")
    _check_idle(run)
    found = prunable(run, others)
    if found.stale:
        run.rewrite(set(run.heads) - found.stale.keys())
    for path in (*found.cache, *found.others):
        path.unlink(missing_ok=True)
    return found


def _check_idle(run: RunDirectory) -> None:
    """Raise `LabError` where a process works in a run, or jobs of it wait on a cluster."""
    if at_work := drivers(run.root):
        raise LabError(f"{run.root} is in use by {at_work[0]}; it stays as it is meanwhile")
    if (run.root / "jobs").is_dir() and any_may_run(run):
        raise LabError(
            f"{run.root} has jobs that wait or run on a cluster; end them first: "
            f"maxk-lab status {run.root} --cancel"
        )


def _cache(run: RunDirectory, plan: Plan, states: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files of the cache that are spent, or of no unit of the plan."""
    if run.cache_path.is_symlink():
        return
    kept: list[str] = []
    needed: list[str] = []
    spent: list[str] = []
    for unit in plan.units:
        cells = [cell.as_dict() for cell in unit.cells]
        done = all(states.get(cell.id) == "done" for cell in unit.cells)
        kept += _patterns("kept", unit, cells)
        needed += _patterns("evaluation" if done else "kept", unit, cells)
        spent += _patterns("spent", unit, cells) if done else ()
    of_a_unit, still_needed, of_done = Patterns(kept), Patterns(needed), Patterns(spent)
    shapes = Patterns(_shapes())
    for path in sorted(run.cache_path.glob("*")):
        name = path.name
        if path.is_symlink() or not path.is_file() or name.startswith(PARTIAL):
            continue
        gone = name in shapes and name not in of_a_unit
        if gone or (name in of_done and name not in still_needed):
            yield path


def _patterns(what: str, unit: Unit, cells: _Cells) -> Iterable[str]:
    """Return patterns of a unit; none where its kind, perhaps of another package, has none."""
    found = getattr(_part(unit.study), what, None)
    patterns: Iterable[str] = () if found is None else found(unit.as_dict(), cells)
    return patterns


def _shapes() -> Iterator[str]:
    for kind in STUDIES:
        yield from getattr(_part(kind.name), "SHAPES", ())


def _part(study: str) -> Any:
    try:
        return STUDIES.get(study).part("kept")
    except ModuleNotFoundError:
        return None


class Patterns:
    """Very many patterns of names, of which few are looked at for each name."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._by_beginning: dict[str, set[str]] = {}
        for pattern in patterns:
            self._by_beginning.setdefault(re.split(r"[*?[]", pattern)[0], set()).add(pattern)
        self._lengths = sorted({len(one) for one in self._by_beginning})

    def __contains__(self, name: str) -> bool:
        return any(
            fnmatchcase(name, pattern)
            for length in self._lengths
            for pattern in self._by_beginning.get(name[:length], ())
        )
