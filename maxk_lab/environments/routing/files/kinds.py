"""Which files hold problem instances, for which environment, and the hash of what they hold. Imports no torch and no RL4CO."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError

# What a file of this suffix holds, and the one environment it is for (empty: whichever RL4CO environment wrote it).
FORMATS: Mapping[str, tuple[str, str]] = {
    ".npz": ("arrays in RL4CO's format", ""),
    ".tsp": ("a TSPLIB problem", "tsp"),
    ".vrp": ("a CVRPLIB problem", "cvrp"),
}
RL4CO = "maxk_lab.environments.routing.adapter:RL4COEnvironment"
ALLOWED = "an .npz file in RL4CO's format, a TSPLIB .tsp file (tsp), a CVRPLIB .vrp file (cvrp) or a folder of them"


def data_files(path: str | Path) -> list[Path]:
    """The files of instances at `path`: the file itself, or those of a folder in the order of their names.

    Files of other suffixes in a folder, such as solutions, are passed over. Raises `LabError` where there is nothing to read.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in FORMATS and file.is_file())
        if not files:
            raise LabError(f"{path} holds no file of instances; allowed: {ALLOWED}")
        return files
    if not path.is_file():
        raise LabError(f"there is no file {path}; allowed: {ALLOWED}")
    if path.suffix not in FORMATS:
        raise LabError(f"{path} is no file of instances; allowed: {ALLOWED}")
    return [path]


def hash_of_data(path: str | Path) -> str:
    """The SHA-256 of a file; of a folder, that of its files' hashes, one a line, in the order of their names."""
    path = Path(path)
    hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in data_files(path)]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest() if path.is_dir() else hashes[0]


def data_refusal(environment: str, path: str | Path) -> str | None:
    """Why the files at `path` cannot be an evaluation set of this environment, as far as their names say; else None."""
    readers = [row.name for row in ENVIRONMENTS if row.implementation == RL4CO]
    if environment not in readers:
        return (
            f"{environment} reads no files of instances; environments that do: {', '.join(readers)}"
        )
    try:
        files = data_files(path)
    except LabError as error:
        return str(error)
    for file in files:
        holds, only = FORMATS[file.suffix]
        if only and only != environment:
            return f"{file} is {holds}, for {only} only, not for {environment}; allowed: {ALLOWED}"
    return None
