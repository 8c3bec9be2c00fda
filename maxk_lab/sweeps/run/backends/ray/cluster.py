"""A cluster as the backend sees it: its nodes, and tasks that are started, heard and cancelled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from maxk_lab.sweeps.run.backends.ray.parcel import Item, Parcel


class Needs(NamedTuple):
    """The cores and devices that a unit is given, and the memory, which Ray only counts: bytes."""

    cpus: float
    gpus: float
    memory: int

    def slots(self, resources: Mapping[str, float]) -> int:
        """Return how many units at once a node with these resources has room for."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}
        shares = [resources.get(name, 0.0) / n for name, n in wanted.items() if n]
        # A fraction such as a tenth is not exact.
        return int(min(shares) + 1e-9)


@dataclass(frozen=True)
class Node:
    """A node that is up: its id, the name of its machine, and what it has in all."""

    id: str
    host: str
    resources: Mapping[str, float]


class Heard(NamedTuple):
    """News of a task since it was last asked; `ended`, or `lost` with the reason, is the last.

    `detail` is what is to be known of the loss on this machine alone.
    """

    number: int
    items: Sequence[Item] = ()
    ended: bool = False
    lost: str = ""
    detail: str = ""


class Cluster(Protocol):
    """All that the backend asks of a cluster; a task has the number under which it was started."""

    # A folder that is removed with the cluster, where that is of this machine alone; else "".
    scratch: str

    def nodes(self) -> list[Node]:
        """Return the nodes that are up."""

    def keep(self, sha256: str, data: bytes) -> None:
        """Take the content of a file, for tasks to fetch by its hash."""

    def forget(self, hashes: Collection[str]) -> None:
        """Keep these contents no longer."""

    def start(self, number: int, parcel: Parcel, needs: Needs, without: Collection[str]) -> None:
        """Have a unit measured on any node but those with these ids."""

    def poll(self, seconds: float) -> list[Heard]:
        """Wait at most so long for something to be told, and return it."""

    def cancel(self, number: int) -> None:
        """End a task, of which nothing more is told."""

    def close(self) -> None:
        """End every task, and leave the cluster."""
