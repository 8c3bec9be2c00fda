"""Files that a sweep file names, resolved to their path and the hash of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from maxk_lab.catalogue import load
from maxk_lab.errors import LabError, shown
from maxk_lab.files import named_in_sweep
from maxk_lab.sweeps.spec.source import Source
from maxk_lab.sweeps.studies import STUDIES


def hash_of_file(path: str | Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits. Raises `LabError` where it cannot be read."""
    with named_in_sweep(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolved_file(
    written: Any, name: str, hash_of: Callable[[str | Path], str] = hash_of_file
) -> dict[str, str]:
    """Return {"path", "sha256"} of a path, or of such a mapping, which a resolved sweep file has.

    Raises `LabError` for what is neither, for a file that is not there, and for one that is no
    longer what the mapping says.
    """
    known = dict(written) if isinstance(written, Mapping) else {"path": written}
    path, expected = known.pop("path", None), known.pop("sha256", None)
    if not isinstance(path, str) or not path or known:
        raise LabError(f"{name} must be the path of a file, got {shown(written)}")
    found = hash_of(path)
    if expected is not None and found != expected:
        raise LabError(f"{path} has changed: its SHA-256 was {expected} and is {found}")
    return {"path": path, "sha256": found}


def resolve_files(source: Source) -> None:
    """Resolve the files that settings of studies name; a missing one is noted and left out."""
    environment = source.tree.get("environment")
    name = str(environment.get("name")) if isinstance(environment, Mapping) else ""
    for row in STUDIES:
        for setting, hash_of in row.files.items():
            path = (row.name, *setting.split("."))
            block: Any = source.tree
            for step in path[:-1]:
                block = block.get(step) if isinstance(block, dict) else None
            if not isinstance(block, dict) or block.get(path[-1]) is None:
                continue
            try:
                block[path[-1]] = resolved_file(
                    block[path[-1]], path[-1], partial(load(hash_of), environment=name)
                )
            except LabError as error:
                source.add(path, str(error))
                del block[path[-1]]
