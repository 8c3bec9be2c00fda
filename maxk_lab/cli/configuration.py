"""The configuration of the user: where it lies, and the profiles in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from maxk_lab.sweeps.spec.layers import Choice

VARIABLE = "MAXK_LAB_CONFIG"
USUAL = Path(typer.get_app_dir("maxk-lab")) / "config.yaml"

Backend = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="What measures the cells: local, ray, slurm (maxk-lab list backends)."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The settings of execution under this name in your configuration, "
        f"{str(USUAL).replace(os.path.expanduser('~'), '~', 1)} or ${VARIABLE} "
        "(maxk-lab list profiles).",
    ),
]


def config_path() -> Path | None:
    """Return the configuration, which the environment may name; None where there is none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return USUAL if os.path.lexists(USUAL) else None


def choice(backend: str | None, profile: str | None) -> Choice:
    """Return what the command line and the configuration say of the execution."""
    from maxk_lab.sweeps.spec.layers import Choice

    return Choice(config_path(), profile, backend)


def choosing(backend: str | None, profile: str | None) -> Sequence[str]:
    """Return the words of a command line that choose the same."""
    words = {"--backend": backend, "--profile": profile}
    return [word for pair in words.items() if pair[1] is not None for word in pair if word]


def profiles() -> list[dict[str, Any]]:
    """Return the profiles of the configuration with what each of them sets.

    Raises `LabError` for a configuration that cannot be read, or with anything wrong.
    """
    from maxk_lab.sweeps.quantities import spelled, spelled_size
    from maxk_lab.sweeps.spec.layers import profiles as read

    path = config_path()
    words: dict[str, Callable[[Any], str]] = {
        "timeout": spelled,
        "reward_timeout": spelled,
        "memory": spelled_size,
    }
    return [
        {"name": name, **{k: words[k](v) if k in words else v for k, v in found.items()}}
        for name, found in (read(path) if path is not None else {}).items()
    ]


def no_profiles() -> str:
    """Return the sentence where there are none: where they would be."""
    return (
        f"no profiles in {config_path() or USUAL}; there one would be: "
        "profiles: {cluster: {backend: slurm, partition: gpu, time: 4h}}"
    )
