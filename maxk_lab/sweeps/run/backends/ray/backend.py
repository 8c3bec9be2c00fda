"""The Ray backend on the driver's side: units handed to a cluster, and what it tells passed on."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from maxk_lab.errors import LabError, RefusedError, first_line, warn
from maxk_lab.sweeps.run.backends.backend import LEAVE_SECONDS, Event, Task
from maxk_lab.sweeps.run.backends.ray.node import FILES, Item, measured_on_a_node
from maxk_lab.sweeps.run.backends.ray.travel import Parcel, inode, patterns_of, stage
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

# Read by Ray: it tells its makers nothing, prints no lines of its own to stdout, where results
# belong, and takes our files in place of those that `ray job submit` was given.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
}
# Seconds in which a cluster must answer: Ray itself tries for minutes.
_PATIENCE = 10.0
# What a cluster on this machine keeps in memory: little, for all files are there already.
_STORE = 100 * 2**20
# A socket lies in the folder of a local cluster under a name of up to 70 characters, and the system
# allows 107 in all.
_LONGEST_FOLDER = 24
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


@contextmanager
def joined(address: str, cpus: int, files: Path) -> Iterator[Any]:
    """Join the cluster at `address`, and yield Ray; without one start a cluster on this machine.

    That has `cpus` cores. Processes on its nodes start in a copy of the folder `files`. Where this
    process has joined a cluster already, that one is used, without one. Raises `RefusedError` where
    there is none.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise RefusedError(
            f"backend ray needs Ray ({first_line(error)}); install it: pip install 'maxk-lab[ray]'"
        ) from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield ray
        return
    usual = tempfile.gettempdir()
    short = usual if len(usual) <= _LONGEST_FOLDER else "/tmp"
    with tempfile.TemporaryDirectory("", "maxk-ray-", short, ignore_cleanup_errors=True) as folder:
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if not address:
            options |= {"num_cpus": cpus, "object_store_memory": _STORE, "_temp_dir": folder}
            options |= {"include_dashboard": False}
        try:
            host, _, port = address.rpartition(":")
            if port.isdigit():
                socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
            environment = {"working_dir": str(files)}
            ray.init(address=address or "local", runtime_env=environment, **options)
        except Exception as error:  # Ray raises many kinds
            where = f"no Ray cluster {f'at {address}' if address else 'can be started here'}"
            raise RefusedError(
                f"{where}: {first_line(error)}; execution.address names another, "
                "and without it a run starts one on this machine"
            ) from error
        try:
            yield ray
        finally:
            ray.shutdown()


class RayBackend:
    """Units as tasks of a Ray cluster, each of them measured once: retries are the driver's.

    Records travel back with the events. What the sweep names of the current folder travels with the
    job. Where nodes see the folders of the run, they use its cache; to others the files of it that
    a unit can use travel along, and new ones back.
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
        # Nodes that cannot measure anything, each with the reason.
        self._refused: dict[str, str] = {}
        self._warned = self._leaving = False

    def __enter__(self) -> Self:
        """Join the cluster. Raises `RefusedError` where there is none."""
        with ExitStack() as stack:
            files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="maxk-lab-")))
            (files / FILES).mkdir()
            # A cluster on this machine sees all.
            tasks = self._tasks if self._address else ()
            self._elsewhere = stage(tasks, Path.cwd(), files / FILES)
            self._ray = stack.enter_context(joined(self._address, self._jobs, files))
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
        patterns = patterns_of(task) if self._address else ()
        cache = {}
        for path in {path for pattern in patterns for path in self._cache.glob(pattern)}:
            with suppress(FileNotFoundError):  # another driver has just removed it
                cache[path.name] = self._ray.put(path.read_bytes())
        where = self._driver, self._places, self._elsewhere
        parcel = Parcel(task, self._execution, *where, patterns, cache)
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
            # What has come is kept.
            for handle in self._ready(0.0):
                yield from self._next(handle)
            keys = [task.key for task in self._open.values()]
            self._cancel_all()
            yield from (Event(key, "left", {}) for key in keys)
            return
        self._tell_where_there_is_no_room()
        if not self._open:
            time.sleep(seconds)
        for handle in self._ready(seconds):
            yield from self._next(handle)

    def _ready(self, seconds: float) -> Sequence[Any]:
        """Return the tasks that have something to tell; wait for one at most so long."""
        handles = list(self._open)
        ready: Sequence[Any] = ()
        if handles:
            ready, _ = self._ray.wait(handles, num_returns=1, timeout=seconds)
        if ready and len(handles) > 1:
            ready, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        return ready

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
            if name == "refused":
                del self._open[handle]
                if payload["node"] not in self._refused:
                    warn(f"a node of the cluster is not used: {payload['why']}")
                self._refused[payload["node"]] = payload["why"]
                self.submit(task)
                return
            if name == "unit_finished":
                del self._open[handle]
            yield Event(task.key, name, payload)

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
