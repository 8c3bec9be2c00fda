"""The files that a unit needs, found and hashed, for nodes that see no folder of the driver."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.files import PARTIAL
from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.sweeps.plan.content import function_paths
from maxk_lab.sweeps.plan.identity import FILE_KEYS
from maxk_lab.sweeps.plan.needs import size
from maxk_lab.sweeps.plan.sources import modules_below
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.ray.parcel import Luggage
from maxk_lab.sweeps.studies import STUDIES

# The most bytes of one unit that travel; whoever has larger files has a folder that nodes share.
MOST_BYTES = 4 * 2**30
_Stamp = tuple[int, int, int]


class Packer:
    """Packs the luggage of units; a file is hashed once as long as it is not written again."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self._folder, self._cache = folder, cache
        self._hashes: dict[Path, tuple[_Stamp, str]] = {}
        self._paths: dict[str, Path] = {}

    def luggage(self, task: Task) -> Luggage:
        """Return the files that a unit comes with. Raises `LabError` where they are too large."""
        cache: dict[str, Path] = {}
        here: dict[str, Path] = {}
        absent: list[str] = []
        for path in self._of_cache(task):
            cache[path.name] = path
        for name in _named(task.unit):
            path = Path(os.path.normpath(self._folder / name))
            if path.is_relative_to(self._folder):
                here |= {str(one.relative_to(self._folder)): one for one in _files(path)}
            else:
                absent.append(name)
        for path in _modules(task.unit, self._folder):
            here[str(path.relative_to(self._folder))] = path
        total = sum(path.stat().st_size for path in (*cache.values(), *here.values()))
        if total > MOST_BYTES:
            raise LabError(
                f"the files that {task.label} needs have {size(total)}, and at most "
                f"{size(MOST_BYTES)} travel to a node: put the results and what the sweep names "
                "into a folder that all nodes see"
            )
        return Luggage(self._hashed(cache), self._hashed(here), tuple(absent))

    def content(self, sha256: str) -> bytes:
        """Return the content of a packed file by its hash."""
        return self._paths[sha256].read_bytes()

    def _of_cache(self, task: Task) -> Iterator[Path]:
        """Yield the files of the cache that the kind of study says that it can use."""
        cells = list(task.cells)
        try:
            kept = STUDIES.get(cells[0]["study"]).part("kept").kept
        except ModuleNotFoundError:
            return
        for pattern in kept(task.unit, cells):
            for path in sorted(self._cache.glob(pattern)):
                if path.is_file() and not path.name.startswith(PARTIAL):
                    yield path

    def _hashed(self, files: Mapping[str, Path]) -> dict[str, str]:
        found = {}
        for name, path in files.items():
            # One that has just been removed, such as a damaged one, is none that is needed.
            with suppress(FileNotFoundError):
                found[name] = self._hash(path)
        return found

    def _hash(self, path: Path) -> str:
        status = path.stat()
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._hashes.get(path)
        if known is None or known[0] != stamp:
            with path.open("rb") as file:
                known = stamp, hashlib.file_digest(file, "sha256").hexdigest()
            self._hashes[path] = known
        self._paths[known[1]] = path
        return known[1]


def _named(unit: Any) -> Iterator[str]:
    """Yield the paths that a unit names: those of hashed files, and the folder of a model."""
    if isinstance(unit, Mapping):
        if set(unit) == FILE_KEYS:
            yield unit["path"]
            return
        for key, value in unit.items():
            if key == PRETRAINED_FOLDER.name and isinstance(value, str) and value:
                yield value
            else:
                yield from _named(value)


def _files(path: Path) -> list[Path]:
    """The file, or all files of a folder."""
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [one for one in found if one.is_file()]


def _modules(unit: Mapping[str, Any], folder: Path) -> set[Path]:
    """The modules in a folder that the functions that a unit names are in, and that these import.

    Nothing is imported here.
    """
    found: set[Path] = set()
    for module in {name.partition(":")[0] for name in function_paths(unit)}:
        # What is found only while it runs goes along, too.
        first = folder / module.partition(".")[0]
        files = first.rglob("*.py") if first.is_dir() else [first.with_suffix(".py")]
        found |= {*modules_below(module, folder), *(one for one in files if one.is_file())}
    return found
