"""Travel to a node of a cluster: a unit, and the files that it needs of the driver's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.sweeps.plan.content import function_paths, source_files
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.named import file_mappings
from maxk_lab.sweeps.spec.execution import Execution
from maxk_lab.sweeps.studies import STUDIES

# The bytes of files that travel with a job: Ray takes half a GiB at most.
MOST_BYTES = 400 * 2**20


@dataclass(frozen=True)
class Parcel:
    """A unit on its way to a node from a `driver`, which no other one is called.

    `places` are the folder where maxk-lab was started and the cache of the run, each with the
    number that the file system gives it. For a node that does not see them, `cache` has objects of
    the cluster with files of the run's cache by their names, of which it sends back what fits
    `patterns`; `elsewhere` are the files that have not travelled with the job.
    """

    task: Task
    execution: Execution
    driver: str
    places: tuple[tuple[str, int], ...]
    elsewhere: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    cache: Mapping[str, Any] = field(default_factory=dict)

    def is_at_home(self) -> bool:
        """Whether this process sees the folders of the driver."""
        return all(inode(path) == number for path, number in self.places)


def inode(path: str | Path) -> int:
    """Return the number that the file system gives a folder; 0 where there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def patterns_of(task: Task) -> tuple[str, ...]:
    """Return the names in the cache of what is worth the way: no pool, which is drawn as fast."""
    cells = list(task.cells)
    part = STUDIES.get(cells[0]["study"]).part("spec")
    if not hasattr(part, "kept"):
        return ()
    names = part.kept(task.unit, cells)
    return tuple(name for name in names if not any(fnmatch(name, one) for one in part.SHAPES))


def stage(tasks: Iterable[Task], folder: Path, target: Path) -> tuple[str, ...]:
    """Copy the files below `folder` that units name to `target`, under the names that they have.

    With them go the packages of the user's functions, and those that these import from there.
    Returns what stays: files that lie elsewhere, and the largest ones where there is too much.
    """
    paths: set[Path] = set()
    elsewhere: set[str] = set()
    for task in tasks:
        modules = source_files(name.partition(":")[0] for name in function_paths(task.unit))
        paths |= {path for path in modules.values() if path.is_relative_to(folder)}
        model = task.unit.get("policy", {}).get(PRETRAINED_FOLDER)
        names = [one["path"] for one in file_mappings(task.unit)]
        for name in [*names, model] if model else names:
            path = Path(os.path.normpath(folder / name))
            if path.is_relative_to(folder):
                paths |= set(path.rglob("*")) if path.is_dir() else {path}
            else:
                elsewhere.add(name)
    total = 0
    for path in sorted((path for path in paths if path.is_file()), key=_size):
        name, total = path.relative_to(folder), total + _size(path)
        if total > MOST_BYTES:
            elsewhere.add(str(name))
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
    return tuple(sorted(elsewhere))


def _size(path: Path) -> int:
    return path.stat().st_size
