"""The Ray backend on the driver's side: units handed to a cluster, and what it tells passed on."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self

from maxk_lab.errors import LabError, RefusedError, warn
from maxk_lab.files import write_atomically
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Task, Told
from maxk_lab.sweeps.run.backends.ray.cluster import Cluster, Heard, Needs, Node
from maxk_lab.sweeps.run.backends.ray.joined import opened
from maxk_lab.sweeps.run.backends.ray.luggage import Packer
from maxk_lab.sweeps.run.backends.ray.parcel import Parcel
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

# Seconds for which a list of the nodes is used, and after which one has the nodes that had joined.
_NODES_LAST, _NODES_TOLD = 2.0, 5.0
# A file in the cache by which a node tells it from others, and the seconds for which one is left.
_TOKEN, _TOKEN_LASTS = ".seen-", 30 * 24 * 3600.0
# One unit more than there is room for, for so many that are measured: none of them waits for the
# driver, and the rest stays free for another driver of the run.
_AHEAD = 8


@dataclass
class _Open:
    """A task on its way."""

    task: Task
    parcel: Parcel


class RayBackend:
    """Units as tasks of a Ray cluster, each of them measured once: retries are the driver's.

    Records travel back with the events. Where nodes see the folders of the run, they use its cache;
    to others the files that a unit can use travel along with it, and new ones back.
    """

    here: ClassVar[bool] = False
    leases_itself: ClassVar[bool] = False

    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, tasks: Sequence[Task]
    ) -> None:
        del tasks  # each travels by itself
        self._run, self._execution, self._jobs = run, execution, jobs
        options = execution.parameters
        self._address, self._most = str(options["address"]), int(options["slots"])
        self._needs = Needs(execution.cpus, execution.gpus or 0.0, execution.memory or 0)
        self._open: dict[int, _Open] = {}
        self._numbers = count()
        # Whether units take their files along, since some node does not see them.
        self._carrying = False
        # Nodes that cannot measure anything, each with the reason, and when the last one said so.
        self._refused: dict[str, str] = {}
        self._refused_at = float("-inf")
        self._nodes: tuple[float, list[Node]] = (float("-inf"), [])
        self._warned = self._leaving = False

    def __enter__(self) -> Self:
        """Join the cluster. Raises `RefusedError` where there is none."""
        with ExitStack() as stack:
            self._cluster: Cluster = stack.enter_context(opened(self._address, self._jobs))
            cache, folder = self._run.cache_path.absolute(), Path.cwd()
            self._packer = Packer(folder, cache)
            for left in cache.glob(f"{_TOKEN}*"):
                # That of a driver that was killed, and that no node looks for any more.
                if time.time() - left.stat().st_mtime > _TOKEN_LASTS:
                    left.unlink(missing_ok=True)
            # A node on which this file is to be found sees the cache of the run.
            token = cache / f"{_TOKEN}{secrets.token_hex(16)}"
            write_atomically(token, b"")
            stack.callback(token.unlink, missing_ok=True)
            self._token, self._cache, self._folder = token.name, cache, folder
            self._closing = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """End every task, with its worker processes, and leave the cluster."""
        self._closing.close()

    @property
    def room(self) -> int:
        """The units that the cluster has room for and has not, and a few ahead of them."""
        slots = self._slots()
        if self._most and self._most <= slots:
            return self._most - len(self._open)
        # Also where there is no room at all: a cluster may grow when it is asked to.
        return slots + max(1, slots // _AHEAD) - len(self._open)

    def submit(self, task: Task) -> None:
        """Hand a task to the cluster."""
        parcel = Parcel(
            task=task,
            execution=self._execution,
            folder=str(self._folder),
            inode=os.stat(self._folder).st_ino,
            cache=str(self._cache),
            token=self._token,
            provenance=task.provenance,
            scratch=self._cluster.scratch,
        )
        self._start(parcel)

    def _start(self, parcel: Parcel) -> None:
        if self._carrying:
            parcel = replace(parcel, luggage=self._packer.luggage(parcel.task))
            for sha256 in parcel.hashes:
                self._cluster.keep(sha256, self._packer.content(sha256))
        number = next(self._numbers)
        self._open[number] = _Open(parcel.task, parcel)
        self._cluster.start(number, parcel, self._needs_of(parcel.task), self._refused.keys())

    def _needs_of(self, task: Task) -> Needs:
        """Return what a unit is given; where nothing is said of devices, one if it can use one."""
        if self._execution.gpus is None and task.on_device:
            with_device = self._needs._replace(gpus=1.0)
            if any(with_device.slots(node.resources) for node in self._usable()):
                return with_device
        return self._needs

    def _ended(self, number: int) -> _Open:
        """Take a task off the list, and the files that no other one needs off the cluster."""
        found = self._open.pop(number)
        others = (one.parcel.hashes for one in self._open.values())
        if unused := found.parcel.hashes.difference(*others):
            self._cluster.forget(unused)
        return found

    def _withdraw(self, key: str) -> None:
        """End a task with the process that has it."""
        for number in [one for one, found in self._open.items() if found.task.key == key]:
            self._cluster.cancel(number)
            self._ended(number)

    def leave(self, seconds: float = LEAVE_SECONDS) -> None:
        """End every task at once; what is not finished goes on from the last checkpoint here."""
        del seconds
        self._leaving = True

    def detach(self) -> None:
        """Raise `LabError`: the cluster ends what a driver has begun when that leaves."""
        raise LabError(
            "on Ray a run ends with its driver; start it where it can stay, or use backend slurm"
        )

    def events(self, seconds: float) -> Iterator[Told]:
        """Yield what the nodes have told. Raises `RefusedError` where none of them can measure."""
        if self._leaving:
            for key in [found.task.key for found in self._open.values()]:
                self._withdraw(key)
                yield Told(key, "left", {})
            return
        self._tell_where_there_is_no_room()
        for heard in self._cluster.poll(seconds):
            if heard.number in self._open:
                yield from self._passed_on(heard)

    def _passed_on(self, heard: Heard) -> Iterator[Told]:
        found = self._open[heard.number]
        key = found.task.key
        for name, payload in heard.items:
            if name in ("blind", "refused"):
                self._send_elsewhere(heard.number, name, payload)
                return
            if name in ("unit_finished", "left"):
                self._ended(heard.number)
            yield Told(key, name, payload)
            if name == "unit_finished":
                return
        if heard.lost or heard.ended:
            self._ended(heard.number)
            if heard.detail:
                warn(f"{found.task.label}: {heard.lost}: {heard.detail}")
            yield Told(key, "lost", {"why": heard.lost or "its node told no end"})

    def _send_elsewhere(self, number: int, name: str, payload: dict[str, Any]) -> None:
        """Start a task again: with its files, or on another node than the one that refused it."""
        if name == "blind":
            self._carrying = True
        else:
            if payload["node"] not in self._refused:
                warn(f"a node of the cluster is not used: {payload['why']}")
            self._refused[payload["node"]] = payload["why"]
            self._refused_at = time.monotonic()
        self._start(replace(self._ended(number).parcel, luggage=None))

    def _slots(self) -> int:
        """How many units all nodes have room for."""
        return sum(self._needs.slots(node.resources) for node in self._usable())

    def _usable(self) -> list[Node]:
        """The nodes that are up and have not refused; new ones are among them soon."""
        asked, nodes = self._nodes
        if time.monotonic() - asked > _NODES_LAST:
            nodes = self._cluster.nodes()
            self._nodes = time.monotonic(), nodes
        return [node for node in nodes if node.id not in self._refused]

    def _tell_where_there_is_no_room(self) -> None:
        """Say once that no node has what a unit needs. Raises `RefusedError` where none will."""
        if self._slots():
            return
        if self._refused:
            # A node that has just joined may not be in the list yet.
            if time.monotonic() - self._refused_at > _NODES_TOLD:
                why = "; ".join(sorted(set(self._refused.values())))
                raise RefusedError(f"no node of the cluster can measure: {why}")
            return
        if self._warned:
            return
        self._warned = True
        needs = self._needs
        wanted = f"execution.cpus {needs.cpus:g}, gpus {needs.gpus:g}, memory {needs.memory:,} B"
        if not self._address:
            raise RefusedError(
                f"this machine has not what a unit asks for ({wanted}), with --jobs {self._jobs}"
            )
        warn(f"no node of the cluster has what a unit asks for ({wanted}); waiting for one")
