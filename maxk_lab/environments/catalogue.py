"""The catalogue of environments, their capabilities by row, and the files they read.

This module imports neither torch nor RL4CO.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.custom import CUSTOM
from maxk_lab.environments.exact_rows import BANDIT, GAUSSIAN
from maxk_lab.environments.language.rows import LANGUAGE, TOY_LLM
from maxk_lab.environments.pronounce_rows import PRONOUNCE
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.environments.rows import EnvironmentRow, FileFormat
from maxk_lab.errors import LONGEST, LabError, shortened
from maxk_lab.files import named_in_sweep
from maxk_lab.visible import visible_line

ENVIRONMENTS: Catalogue[EnvironmentRow] = Catalogue(
    "environment",
    [*ROUTING, BANDIT, GAUSSIAN, TOY_LLM, LANGUAGE, PRONOUNCE, CUSTOM],
    "maxk_lab.environments",
)
# How an environment without a capability differs from environments with it.
_WITHOUT = {
    "greedy": "is not decoded greedily; environments that are",
    "multistart": "has no forced first actions; environments that have",
    "tempered": "is not sampled at another temperature; environments that are",
    # Only the run knows whether there is a CUDA device.
    "cuda": "stays on the CPU; allowed: auto, cpu, or one of these environments",
    "files": "reads no instances; environments that do",
}

Formats = Sequence[FileFormat]


def capability_refusal(name: str, capability: str) -> str | None:
    """Return why an environment lacks a capability (`greedy`, `files`, ...), or None."""

    def can(row: EnvironmentRow) -> bool:
        return bool(row.files) if capability == "files" else capability in row.supports

    if can(ENVIRONMENTS.get(name)):
        return None
    able = ", ".join(row.name for row in ENVIRONMENTS if can(row))
    return f"{name} {_WITHOUT[capability]}: {able}"


def optimum_refusal(name: str, parameters: Mapping[str, Any], reference: str) -> str | None:
    """Return why an environment has no optima for `evaluate.reference`; None if it has.

    The run may still refuse `exact` for instances of a file, because only the file has their size.
    """
    row = ENVIRONMENTS.get(name)
    if reference != "exact" or row.solves_any_size or row.enumerable(parameters):
        return None
    able = ", ".join(row.name for row in ENVIRONMENTS if row.solves_any_size)
    return (
        f"{name} of this size has no exact optimum; use auto, or a size whose trajectories can be "
        f"enumerated ({row.exact_when}); exact at any size: {able}"
    )


def formats_of(environment: str) -> Formats:
    """The formats of an environment's files; without any, the formats of all environments."""
    formats = ENVIRONMENTS.get(environment).files if environment in ENVIRONMENTS else ()
    return formats or tuple(dict.fromkeys(file for row in ENVIRONMENTS for file in row.files))


def data_files(path: str | Path, formats: Formats) -> list[Path]:
    """Return the instance files at `path`: the file itself, or those of a folder by name.

    Files of other suffixes in a folder, such as solutions, are ignored. Raises `LabError` if there
    is no file to read.
    """
    path = Path(path)
    suffixes = {entry.suffix for entry in formats}
    with named_in_sweep(path):
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        files = [file for file in inside if file.suffix.lower() in suffixes and file.is_file()]
    if files:
        return files
    if path.is_dir():
        reason = f"{path} holds no file of instances"
    else:
        name = shortened(visible_line(str(path)), LONGEST)
        reason = f"{name} is no file of instances" if path.exists() else f"there is no file {name}"
        reason += " but a compressed one: unpack it" * (path.suffix == ".gz")
    raise LabError(f"{reason}; allowed: {_allowed(formats)}")


def hash_of_data(path: str | Path, environment: str) -> str:
    """Return the SHA-256 of a file of instances of this environment.

    The hash of a folder is that of its files' hashes, one per line, in the order of their names.
    """
    path = Path(path)
    files = data_files(path, formats_of(environment))
    with named_in_sweep(path):
        hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest() if path.is_dir() else hashes[0]


def data_refusal(environment: str, path: str | Path) -> str | None:
    """Return why the files at `path` cannot be an evaluation set of this environment, or None.

    The test uses the names of the files, not their content.
    """
    formats = formats_of(environment)
    by_suffix = {entry.suffix: entry for entry in formats}
    try:
        for file in data_files(path, formats):
            entry = by_suffix[file.suffix.lower()]
            if entry.only not in ("", environment):
                raise LabError(
                    f"{file} is {entry.holds}, for {entry.only} only, not for {environment}; "
                    f"allowed: {_allowed(formats)}"
                )
    except LabError as error:
        return str(error)
    return None


def instances_in(
    environment: Mapping[str, Any], policy: Mapping[str, Any], path: str | Path
) -> int:
    """Return the number of instances at `path`, read by the environment itself; imports torch.

    Raises `LabError` if it cannot read them.
    """
    from maxk_lab.environments.environment import make_environment

    return len(make_environment(environment, policy).read_instances(path))  # type: ignore[attr-defined]


def _allowed(formats: Formats) -> str:
    return f"{', '.join(entry.name for entry in formats)} or a folder of them"
