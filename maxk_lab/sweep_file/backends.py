"""The catalogue of backends: what runs the units of a sweep, and its options. Imports none of them.

A backend is a class that `maxk_lab.execution.backends.backend` describes. Its parameters stand
beside the other keys of `execution` in a sweep file, flat; `Execution.parameters` has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.errors import shown
from maxk_lab.settings import Settings, number, setting

# The backend of a sweep that names none.
LOCAL = "local"


@dataclass(frozen=True, kw_only=True)
class BackendRow(Row):
    """A backend: its settings in a sweep file, its class, and the extra of the package.

    `implementation` is `module:Class`. `extra` is what `pip install 'maxk-lab[extra]'` adds for it;
    empty if the backend needs no extra.
    """

    settings: type[Settings] = Settings
    extra: str = ""


def _ray_address(value: Any) -> str:
    """Return the address of a cluster that this machine is part of; empty for one started here."""
    if str(value).startswith("ray://"):
        raise ValueError(
            "is for a machine of the cluster, auto or host:port: from outside of it "
            "`ray job submit -- maxk-lab run ...` starts the run there"
        )
    word = isinstance(value, str) and value.isprintable() and value.split() == [value]
    if value != "" and not (word and len(value) <= 500):
        raise ValueError(f"must be a text of one word, got {shown(value)}")
    return str(value)


class RaySettings(Settings):
    """The settings of tasks on Ray."""

    address: Annotated[str, BeforeValidator(_ray_address)] = setting(
        "",
        "where the cluster is: auto or host:port; without it a cluster of --jobs cores is started "
        "on this machine",
        spelling="text",
    )
    slots: int = number(
        0,
        "the most units at once; 0: as many as the cluster has room for",
        low=0,
        high=100_000,
    )


BACKENDS: Catalogue[BackendRow] = Catalogue(
    "backend",
    [
        BackendRow(
            name=LOCAL,
            meaning="worker processes of this machine, as many as --jobs says",
            implementation="maxk_lab.execution.supervisor.local:LocalBackend",
        ),
        BackendRow(
            name="ray",
            meaning="tasks of a Ray cluster, or of one that is started here",
            implementation="maxk_lab.execution.backends.ray.backend:RayBackend",
            extra="ray",
            settings=RaySettings,
        ),
    ],
)
