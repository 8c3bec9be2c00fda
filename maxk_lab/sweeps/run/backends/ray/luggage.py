"""A unit on its way to a node, with the files for one that sees no folder of the driver's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.sweeps.plan.content import function_paths
from maxk_lab.sweeps.plan.sources import modules_below
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.named import file_mappings
from maxk_lab.sweeps.spec.execution import Execution
from maxk_lab.sweeps.studies import STUDIES


@dataclass(frozen=True)
class Luggage:
    """The files of a unit, by their names: `here` are those below the current folder.

    `cache` are those of the run's cache, of which nodes send back what fits `patterns`. The values
    are objects of the cluster. `elsewhere` are further ones that the sweep names, by their paths: a
    node has them, or cannot measure the unit.
    """

    here: Mapping[str, Any]
    cache: Mapping[str, Any]
    patterns: tuple[str, ...]
    elsewhere: tuple[str, ...]


@dataclass(frozen=True)
class Parcel:
    """A unit on its way to a node from a `driver`, which no other one is called.

    `places` are the folder where maxk-lab was started and the cache of the run, each with the
    number that the file system gives it.
    """

    task: Task
    execution: Execution
    driver: str
    places: tuple[tuple[str, int], ...]
    luggage: Luggage | None = None

    @property
    def folder(self) -> str:
        """The folder where maxk-lab was started."""
        return self.places[0][0]

    def arrived_home(self) -> bool:
        """Whether this process sees the folders of the driver, and needs no luggage."""
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


def named_files(tasks: Iterable[Task], folder: Path) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Return the files below `folder` that units name, by their names from there, and the others.

    With them are the modules of the user's functions, and those that they import from there.
    """
    here: dict[str, Path] = {}
    elsewhere: set[str] = set()
    for task in tasks:
        paths = _modules(task.unit, folder)
        model = task.unit.get("policy", {}).get(PRETRAINED_FOLDER)
        names = [one["path"] for one in file_mappings(task.unit)]
        for name in [*names, model] if model else names:
            path = Path(os.path.normpath(folder / name))
            if path.is_relative_to(folder):
                paths |= set(path.rglob("*")) if path.is_dir() else {path}
            else:
                elsewhere.add(name)
        here |= {str(path.relative_to(folder)): path for path in paths if path.is_file()}
    return here, tuple(sorted(elsewhere))


def _modules(unit: Mapping[str, Any], folder: Path) -> set[Path]:
    """The modules in a folder that the functions that a unit names are in, and that these import.

    Nothing is imported here.
    """
    files: set[Path] = set()
    for module in {name.partition(":")[0] for name in function_paths(unit)}:
        # What is found only while it runs goes along, too.
        first = folder / module.partition(".")[0]
        inside = first.rglob("*.py") if first.is_dir() else [first.with_suffix(".py")]
        files |= {*modules_below(module, folder), *inside}
    return files
