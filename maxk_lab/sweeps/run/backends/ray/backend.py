"""The Ray backend on the driver's side: units handed to a cluster, and what it tells passed on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from maxk_lab.errors import LabError, RefusedError, warn
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Event, Task
from maxk_lab.sweeps.run.backends.ray.cluster import Needs, joined, measured_on_a_node
from maxk_lab.sweeps.run.backends.ray.luggage import (
    Luggage,
    Parcel,
    inode,
    named_files,
    patterns_of,
)
from maxk_lab.sweeps.run.backends.ray.node import Item
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

# One unit more than there is room for, for so many that are measured: none of them waits for the
# driver, and the rest stays free for another driver of the run.
_AHEAD = 8
# Batches of events that a task may be ahead of who reads them; beyond that it waits.
_BATCHES_AHEAD = 16
# Words for what Ray says of a loss.
_LOSSES = {
    "NodeDiedError": "its node is gone",
    "WorkerCrashedError": "its process on the node has died",
    "OutOfMemoryError": "Ray ended its process, for the node ran out of memory",
    "ObjectLostError": "its node is gone with what it had measured",
}


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
        self._execution, self._jobs, self._tasks = execution, jobs, tasks
        options = execution.parameters
        self._address, self._most = str(options["address"]), int(options["slots"])
        self._needs = Needs(execution.cpus, execution.gpus or 0.0, execution.memory or 0)
        self._cache, self._driver = run.cache_path.absolute(), secrets.token_hex(8)
        # The tasks that are on their way, by Ray's handles.
        self._open: dict[Any, Task] = {}
        # Whether units take their files along, since some node does not see them.
        self._carrying = False
        # Nodes that cannot measure anything, each with the reason.
        self._refused: dict[str, str] = {}
        self._warned = self._leaving = False

    def __enter__(self) -> Self:
        """Join the cluster. Raises `RefusedError` where there is none."""
        with ExitStack() as stack:
            self._ray = stack.enter_context(joined(self._address, self._jobs))
            self._measured = self._ray.remote(max_retries=0, max_calls=0)(measured_on_a_node)
            stack.callback(self._cancel_all)
            self._closing = stack.pop_all()
        self._cache.mkdir(parents=True, exist_ok=True)
        self._places = tuple((str(path), inode(path)) for path in (Path.cwd(), self._cache))
        return self

    def __exit__(self, *error: object) -> None:
        """End every task, with its worker processes, and leave the cluster."""
        self._closing.close()

    @property
    def room(self) -> int:
        """The units that the cluster has room for and has not, and a few ahead of them."""
        slots = self._slots(self._needs)
        if self._most and self._most <= slots:
            return self._most - len(self._open)
        # Also where there is no room at all: a cluster may grow when it is asked to.
        return slots + max(1, slots // _AHEAD) - len(self._open)

    def submit(self, task: Task) -> None:
        """Hand a task to the cluster, which never begins it again: the driver says when to."""
        luggage = self._luggage(task) if self._carrying else None
        parcel = Parcel(task, self._execution, self._driver, self._places, luggage)
        needs = self._needs
        if self._execution.gpus is None and task.on_device:
            # Where nothing is said of devices, one for a unit that can use one, if there is any.
            with_device = needs._replace(gpus=1.0)
            needs = with_device if self._slots(with_device) else needs
        options: dict[str, Any] = {"num_cpus": needs.cpus, "num_gpus": needs.gpus}
        if needs.memory:
            options["memory"] = needs.memory
        if self._refused:
            refused = ",".join(sorted(self._refused))
            options["label_selector"] = {"ray.io/node-id": f"!in({refused})"}
        handle = self._measured.options(
            name=f"maxk-lab {task.label}",
            num_returns="streaming",
            _generator_backpressure_num_objects=_BATCHES_AHEAD,
            **options,
        ).remote(parcel)
        self._open[handle] = task

    def _luggage(self, task: Task) -> Luggage:
        """Put the files of a unit into the store of the cluster; those of the sweep stay there."""
        patterns, (named, elsewhere) = patterns_of(task), self._named
        cache = {}
        for path in {path for pattern in patterns for path in self._cache.glob(pattern)}:
            with suppress(FileNotFoundError):  # another driver has just removed it
                cache[path.name] = self._put(path)
        return Luggage(named, cache, patterns, elsewhere)

    @cached_property
    def _named(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The files that the sweep names."""
        files, elsewhere = named_files(self._tasks, Path.cwd())
        return {name: self._put(path) for name, path in files.items()}, elsewhere

    def _put(self, path: Path) -> Any:
        return self._ray.put(path.read_bytes())

    def leave(self, seconds: float = LEAVE_SECONDS) -> None:
        """End every task at once; what is not finished goes on from the last checkpoint here."""
        del seconds
        self._leaving = True

    def detach(self) -> None:
        """Raise `LabError`: the cluster ends what a driver has begun when that leaves."""
        raise LabError(
            "on Ray a run ends with its driver; start it where it can stay, or use backend slurm"
        )

    def events(self, seconds: float) -> Iterator[Event]:
        """Yield what the nodes have told. Raises `RefusedError` where none of them can measure."""
        if self._leaving:
            keys = [task.key for task in self._open.values()]
            self._cancel_all()
            yield from (Event(key, "left", {}) for key in keys)
            return
        self._tell_where_there_is_no_room()
        handles = list(self._open)
        if not handles:
            time.sleep(seconds)
            return
        ready, _ = self._ray.wait(handles, num_returns=1, timeout=seconds)
        if ready and len(handles) > 1:
            ready, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        for handle in ready:
            yield from self._next(handle)

    def _next(self, handle: Any) -> Iterator[Event]:
        """Yield what a task has told next; one that has ended without a word is lost."""
        errors, task = self._ray.exceptions, self._open[handle]
        try:
            yield from self._passed_on(handle, self._ray.get(next(handle)))
            return
        except StopIteration:
            why = "its node told no end"
        except errors.RayTaskError as error:
            why = str(error).strip().rpartition("\n")[2]
            raise RefusedError(
                f"a node cannot measure anything: {why}; maxk-lab must be installed on every node"
            ) from error
        except errors.RayError as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            why = next((_LOSSES[kind] for kind in kinds if kind in _LOSSES), "")
            if not why:
                # Records are handed on: no addresses or paths of nodes stand in them.
                why = f"Ray has lost it: {kinds[0]}"
                warn(f"{task.label}: {why}: {error}")
        del self._open[handle]
        yield Event(task.key, "lost", {"why": why})

    def _passed_on(self, handle: Any, items: Sequence[Item]) -> Iterator[Event]:
        task = self._open[handle]
        for name, payload in items:
            if name in ("blind", "refused"):
                del self._open[handle]
                if name == "blind":
                    self._carrying = True
                else:
                    self._refuse(payload["node"], payload["why"])
                self.submit(task)
                return
            if name == "unit_finished":
                del self._open[handle]
            yield Event(task.key, name, payload)

    def _refuse(self, node: str, why: str) -> None:
        if node not in self._refused:
            warn(f"a node of the cluster is not used: {why}")
        self._refused[node] = why

    def _cancel_all(self) -> None:
        """End every task with the process that has it; its workers end with that."""
        for handle in self._open:
            self._ray.cancel(handle, force=True)
        self._open.clear()

    def _slots(self, needs: Needs) -> int:
        """How many such units the nodes have room for that are up and have not refused."""
        return sum(
            needs.slots(node["Resources"])
            for node in self._ray.nodes()
            if node["Alive"] and node["NodeID"] not in self._refused
        )

    def _tell_where_there_is_no_room(self) -> None:
        """Say once that no node has what a unit needs. Raises `RefusedError` where none will."""
        if self._slots(self._needs):
            return
        if self._refused:
            why = "; ".join(sorted(set(self._refused.values())))
            raise RefusedError(f"no node of the cluster can measure: {why}")
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
