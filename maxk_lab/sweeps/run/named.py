"""The files that a sweep names: those that go into a bundle, and a sweep that finds them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from maxk_lab.catalogue import load
from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.identity import FILE_KEYS
from maxk_lab.sweeps.spec.environment import hash_of_file, resolved_file
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.studies import STUDIES

# Where the files lie in a bundle, and in a run that was unpacked from one.
FILES = "files"


@dataclass
class NamedFiles:
    """The files that go along.

    `files` has their content by their names in the bundle, `places` where each lies by the hash
    that the sweep knows it by: the name of a file, or of a folder of files. `absent` has a line for
    every one that does not go along, and for all code and weights that are not the lab's own.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)


def named_files(spec: SweepSpec, *, checkpoints: bool) -> NamedFiles:
    """Read the files that a resolved sweep names: evaluation data, and `checkpoints` if asked for.

    One that is not there any more, or has changed, is absent.
    """
    found, data = NamedFiles(), dict(_evaluation_data(spec))
    for one in file_mappings(spec.model_dump(mode="json")):
        path, known = one["path"], one["sha256"]
        if known in found.places:
            continue
        if known not in data and not checkpoints:
            found.absent.append(f"{path}, which is in it --with checkpoints")
            continue
        try:
            resolved_file(one, "the file", data.get(known, hash_of_file))
            _take(found, Path(path), known)
        except (LabError, OSError, ValueError) as error:
            found.absent.append(f"{path}: {error}")
    for name, what in spec.content.items():
        version = f" ({what['package']} {what.get('version', '')})" if "package" in what else ""
        found.absent.append(f"what is behind {name}{version}")
    found.absent = list(dict.fromkeys(found.absent))
    return found


def relocated(tree: Any, places: Mapping[str, str], root: Path) -> Any:
    """Return a resolved sweep in which the files at these places are named below `root`."""
    if isinstance(tree, Mapping):
        if set(tree) == FILE_KEYS and tree["sha256"] in places:
            return dict(tree) | {"path": str(root / places[tree["sha256"]])}
        return {key: relocated(value, places, root) for key, value in tree.items()}
    return [relocated(value, places, root) for value in tree] if isinstance(tree, list) else tree


def _evaluation_data(spec: SweepSpec) -> Iterator[tuple[str, Callable[[str | Path], str]]]:
    """Yield the hashes of the files that settings of studies name, and what hashes each."""
    environment = str(spec.environment.get("name"))
    for row in STUDIES:
        study = spec.studies.get(row.name)
        block = {} if study is None else study.model_dump(mode="json")
        for setting, hash_of in row.files.items():
            value: Any = block
            for step in setting.split("."):
                value = value.get(step) if isinstance(value, Mapping) else None
            if isinstance(value, Mapping) and set(value) == FILE_KEYS:
                yield value["sha256"], partial(load(hash_of), environment=environment)


def file_mappings(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every {"path", "sha256"} in a resolved sweep, or in a part of it."""
    if isinstance(tree, Mapping):
        if set(tree) == FILE_KEYS:
            yield dict(tree)
            return
        tree = list(tree.values())
    for value in tree if isinstance(tree, list) else ():
        yield from file_mappings(value)


def _take(found: NamedFiles, path: Path, known: str) -> None:
    """Read a file, or the files in a folder. Raises `OSError` or `ValueError` where it cannot."""
    place = f"{FILES}/{known[:16]}/{path.name}"
    inside = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else []
    files = {f"{place}/{one.name}": one for one in inside} if path.is_dir() else {place: path}
    found.files |= {name: one.read_bytes() for name, one in files.items()}
    found.places[known] = place
