"""The search for cells among the other runs of a folder of results, by the ids of the cells.

Nothing is kept of it that could be wrong later: ids are names of files, and a shard lists its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from maxk_lab.sweeps.run.find import find_runs
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.archive import SUFFIX, listed_ids
from maxk_lab.sweeps.run.shards.cells import RECORD


def done_elsewhere(
    wanted: Iterable[str], states: Mapping[str, str], run: RunDirectory, results: Path | None
) -> dict[str, RunDirectory]:
    """Return which other run under `results` has done each of these cells, where one has.

    Those that are missing by their `states` are looked for, and none without `results`. Of several
    runs it is the one that ran last. Only sound, finished records of this identity version count;
    what failed elsewhere may be the fault of another machine.
    """
    left = {one for one in wanted if states[one] == "missing"} if results is not None else set()
    found: dict[str, RunDirectory] = {}
    for other in find_runs(results) if results is not None and left else ():
        if _is_same(other.root, run.root):
            continue
        done = {one for one in _there(left, other) if other.state(one) == "done"}
        found |= dict.fromkeys(done, other)
        left -= done
        if not left:
            break
    return found


def names_of(found: Mapping[str, RunDirectory]) -> dict[str, str]:
    """Return the names of the runs, by the ids of their cells."""
    return {cell_id: run.name for cell_id, run in found.items()}


def _there(left: set[str], run: RunDirectory) -> set[str]:
    """Return those of the cells that a run has a record of, sound or not."""
    if run.root.is_file():  # a bundle has a list of them
        return left.intersection(run.ids())
    try:
        names = [name for name in os.listdir(run.cells_path) if not name.startswith(".")]
    except OSError:
        return set()
    found = left & {name.removesuffix(RECORD) for name in names if name.endswith(RECORD)}
    for name in names:
        if name.endswith(SUFFIX):
            found |= left.intersection(listed_ids(run.cells_path / name))
    return found


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one == other
