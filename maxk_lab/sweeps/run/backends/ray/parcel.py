"""Parcels: a unit on its way to a node with its files, and what the node tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.spec.execution import Execution

# An event by its name. Beside those of `Told` there are `blind`, of a node that sees none of the
# driver's folders and needs the unit's luggage, and `refused`, of one that can measure none, with
# `why`.
Item = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Luggage:
    """The files of a unit for a node that sees no folder of the driver, by their hashes.

    `cache` are those of the run's cache by name, and `here` those below the folder where maxk-lab
    was started by their paths. `absent` are further ones that the sweep names: a node has them, or
    cannot measure the unit.
    """

    cache: Mapping[str, str]
    here: Mapping[str, str]
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parcel:
    """A unit on its way to a node.

    `folder` is where maxk-lab was started, with the number that the file system gives it; `cache`
    that of the run, where there is a file `token`: a node that sees both uses them. `scratch` is
    a folder for what the node writes, which somebody removes; "" is one of the node's own.
    `provenance` is that of the driver.
    """

    task: Task
    execution: Execution
    folder: str
    inode: int
    cache: str
    token: str
    provenance: Mapping[str, Any]
    scratch: str = ""
    luggage: Luggage | None = None

    @property
    def hashes(self) -> set[str]:
        """The hashes of all files that it comes with."""
        if self.luggage is None:
            return set()
        return {*self.luggage.cache.values(), *self.luggage.here.values()}
