"""The configuration of a user: defaults of `execution` for every sweep, and profiles by name.

    execution: {timeout: 2h}
    profiles:
      cluster: {backend: slurm, partition: gpu, time: 4h}

It has what differs between people and machines, and so does not belong in a sweep file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.files import read_regular
from maxk_lab.findings import unknown_key
from maxk_lab.sweeps.spec.source import Source, TreePath, decoded, parse_text
from maxk_lab.sweeps.spec.text.loader import MOST_BYTES

BLOCK, PROFILES = "execution", "profiles"


def read_config(path: Path) -> Source:
    """Return a configuration as a tree, empty where nothing is in the file.

    What is wrong with it as a whole is noted; what it says is checked where it is used. Raises
    `LabError` where it cannot be read, and `SpecError` where it is no mapping in YAML.
    """
    try:
        written = read_regular(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LabError(f"your configuration {path} cannot be read: {reason}") from None
    config = Source(str(path))
    parse_text(config, decoded(written, path))
    config.tree = config.tree or {}
    for key in config.tree:
        if key not in (BLOCK, PROFILES):
            config.add((key,), unknown_key(key, (BLOCK, PROFILES)), key=True)
    for key in (BLOCK, PROFILES):
        _check_mapping(config, (key,), config.tree.get(key, {}))
    for name, profile in profiles_of(config).items():
        _check_mapping(config, (PROFILES, name), profile)
    return config


def profiles_of(config: Source) -> Mapping[str, Any]:
    """Return the profiles of a configuration by their names."""
    found = config.tree.get(PROFILES)
    return found if isinstance(found, Mapping) else {}


def profile_path(config: Source | None, name: str) -> TreePath:
    """Return the place of a profile. Raises `LabError` where there is none of this name."""
    if config is None:
        raise LabError(
            f"there is no profile {shown(name)}: you have no configuration "
            "(maxk-lab list profiles says where it would be)"
        )
    known = profiles_of(config)
    if name not in known:
        also = did_you_mean(name, known)
        names = f"known: {', '.join(map(_name, known))}" if known else "it has none"
        raise LabError(f"{config.file} has no profile {shown(name)}{also}; {names}")
    return (PROFILES, name)


def _name(name: str) -> str:
    return name if name.isprintable() and len(name) <= 40 else shown(name)


def _check_mapping(config: Source, path: TreePath, value: Any) -> None:
    if not isinstance(value, Mapping):
        given = "nothing" if value is None else shown(value)
        config.add(path, f"must be a mapping of keys to values, got {given}")
