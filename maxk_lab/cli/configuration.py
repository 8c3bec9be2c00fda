"""The configuration of the user: where it lies, and the profiles in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maxk_lab.cli import options
from maxk_lab.sweeps.quantities import spelled, spelled_size
from maxk_lab.sweeps.spec import layers

_SPELLED: dict[str, Callable[[Any], str]] = {
    "timeout": spelled,
    "reward_timeout": spelled,
    "memory": spelled_size,
}


def config_path() -> Path | None:
    """Return the configuration, which the environment may name; None where there is none."""
    named = os.environ.get(options.CONFIG_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return options.CONFIG if os.path.lexists(options.CONFIG) else None


def choice(backend: str | None, profile: str | None) -> layers.Choice:
    """Return what the command line and the configuration say of the execution."""
    return layers.Choice(config_path(), profile, backend)


def profiles() -> list[dict[str, Any]]:
    """Return the profiles of the configuration with what each of them sets.

    Raises `LabError` for a configuration that cannot be read, or with anything wrong.
    """
    path = config_path()
    return [
        {"name": name, **{k: _SPELLED[k](v) if k in _SPELLED else v for k, v in settings.items()}}
        for name, settings in (layers.profiles(path) if path is not None else {}).items()
    ]


def no_profiles() -> str:
    """Return the sentence where there are none: where they would be."""
    return (
        f"no profiles in {config_path() or options.CONFIG}; there one would be: "
        "profiles: {cluster: {backend: slurm, partition: gpu, time: 4h}}"
    )
