"""The Ray backend on the driver's side: units handed to a cluster, and what it tells passed on."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Self

from maxk_lab.errors import RefusedError, first_line, warn
from maxk_lab.execution.backends.backend import Backend, Event, Task
from maxk_lab.execution.backends.ray.node import FILES, Parcel, measured
from maxk_lab.execution.bundle import file_mappings
from maxk_lab.execution.records import RunDirectory
from maxk_lab.installed import is_function_path
from maxk_lab.policies.catalogue import PRETRAINED_FOLDER
from maxk_lab.sweep_file.content import source_files, texts_in
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.studies import STUDIES

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
# Batches of events that a task may be ahead of who reads them; beyond that it waits.
_BATCHES_AHEAD = 16
# The bytes of files that travel with a job: Ray takes half a GiB at most.
MOST_BYTES = 400 * 2**20


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


class RayBackend(Backend):
    """Units as tasks of a Ray cluster, each of them measured once: retries are the driver's.

    Records travel back with the events. What the sweep names of the current folder travels with the
    job, the files of the cache that a unit can use with the unit, and new ones back. A cluster on
    this machine uses the cache itself.
    """

    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, tasks: Sequence[Task]
    ) -> None:
        self._execution, self._jobs, self._tasks = execution, jobs, tasks
        self._address = execution.address or ""
        self._cache, self._driver = run.cache_path.absolute(), secrets.token_hex(8)
        # The tasks that are on their way, by Ray's handles.
        self._open: dict[Any, Task] = {}
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
            self._measured = self._ray.remote(max_retries=0, max_calls=0)(measured)
            stack.callback(self._cancel_all)
            self._closing = stack.pop_all()
        self._cache.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        """End every task, with its worker processes, and leave the cluster."""
        self._closing.close()

    @property
    def room(self) -> int:
        """The units that the cluster has cores for and has not, and a few ahead of them."""
        cores = sum(node.get("CPU", 0.0) for node in self._nodes())
        return int(cores * 9 / 8) + 1 - len(self._open)

    def submit(self, task: Task) -> None:
        """Hand a task to the cluster, which never begins it again: the driver says when to."""
        patterns = patterns_of(task) if self._address else ()
        cache = {}
        for path in {path for pattern in patterns for path in self._cache.glob(pattern)}:
            with suppress(FileNotFoundError):  # another driver has just removed it
                cache[path.name] = path.read_bytes()
        where = self._driver, str(Path.cwd()), not self._address, self._elsewhere
        gpus = self._execution.gpus
        if gpus is None:
            # Where nothing is said of devices, one for a unit that can use one, if there is any.
            gpus = float(task.on_device and any(node.get("GPU") for node in self._nodes()))
        handle = self._measured.options(
            name=f"maxk-lab {task.label}",
            num_returns="streaming",
            _generator_backpressure_num_objects=_BATCHES_AHEAD,
            num_cpus=1,
            num_gpus=gpus,
            memory=self._execution.memory,
        ).remote(Parcel(task, self._execution, *where, patterns, cache))
        self._open[handle] = task

    def leave(self, seconds: float) -> None:
        """End every task at once; what is not finished goes on from the last checkpoint here."""
        self._leaving = True

    def events(self, seconds: float) -> Iterator[Event]:
        """Yield what the nodes have told. Raises `RefusedError` where one cannot measure."""
        self._warn_where_there_is_no_room()
        handles = list(self._open)
        if not handles:
            time.sleep(seconds)
            return
        ready, _ = self._ray.wait(handles, num_returns=1, timeout=0 if self._leaving else seconds)
        if ready and len(handles) > 1:
            ready, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        for handle in ready:
            yield from self._next(handle)
        if self._leaving:
            keys = [task.key for task in self._open.values()]
            self._cancel_all()
            yield from (Event(key, "left", {}) for key in keys)

    def _next(self, handle: Any) -> Iterator[Event]:
        """Yield what a task has told next; one that has ended without a word is lost."""
        errors, task = self._ray.exceptions, self._open[handle]
        try:
            for name, payload in self._ray.get(next(handle)):
                if name in ("unit_finished", "lost"):
                    del self._open[handle]
                yield Event(task.key, name, payload)
            return
        except errors.RayTaskError as error:
            why = str(error).strip().rpartition("\n")[2].rpartition("LabError: ")[2]
            raise RefusedError(
                f"a node cannot measure anything: {why}; maxk-lab must be installed on every node"
            ) from error
        except (StopIteration, errors.RayError) as error:
            # Records are handed on: no addresses or paths of nodes stand in them.
            why = f"Ray has lost it: {type(error).__name__}"
        del self._open[handle]
        yield Event(task.key, "lost", {"why": why})

    def _cancel_all(self) -> None:
        """End every task with the process that has it; its workers end with that."""
        for handle in self._open:
            self._ray.cancel(handle, force=True)
        self._open.clear()

    def _nodes(self) -> list[dict[str, float]]:
        """Return the resources of the nodes that are up."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _warn_where_there_is_no_room(self) -> None:
        """Say once that no node has what a unit needs. Raises `RefusedError` where none will."""
        execution = self._execution
        needs = {"CPU": 1, "GPU": execution.gpus or 0, "memory": execution.memory or 0}
        if self._warned or any(
            all(node.get(name, 0) >= most for name, most in needs.items()) for node in self._nodes()
        ):
            return
        self._warned = True
        wanted = "1 core, execution.gpus {GPU:g}, memory {memory:,} B".format(**needs)
        if not self._address:
            raise RefusedError(
                f"this machine has not what a unit asks for ({wanted}), with --jobs {self._jobs}"
            )
        warn(f"no node of the cluster has what a unit asks for ({wanted}); waiting for one")


def patterns_of(task: Task) -> tuple[str, ...]:
    """Return the names in the cache of what is worth the way: no pool, which is drawn as fast."""
    cells = list(task.cells)
    part = STUDIES.get(cells[0]["study"]).part("spec")
    if not hasattr(part, "kept"):
        return ()
    names, shapes = part.kept(task.unit, cells), getattr(part, "SHAPES", ())
    return tuple(name for name in names if not any(fnmatch(name, one) for one in shapes))


def stage(tasks: Iterable[Task], folder: Path, target: Path) -> tuple[str, ...]:
    """Copy the files below `folder` that units name to `target`, under the names that they have.

    With them go the packages of the user's functions, and those that these import from there.
    Returns what stays: files that lie elsewhere, and the largest ones
    where there is too much.
    """
    paths: set[Path] = set()
    elsewhere: set[str] = set()
    for task in tasks:
        modules = source_files(
            name.partition(":")[0] for name in filter(is_function_path, texts_in(task.unit))
        )
        paths |= {path for path in modules.values() if path.is_relative_to(folder)}
        model = task.unit.get("policy", {}).get(PRETRAINED_FOLDER)
        names = [one["path"] for one in file_mappings(task.unit)]
        for name in [*names, model] if model else names:
            path = Path(os.path.normpath(folder / name))
            if path.is_relative_to(folder):
                paths |= set(path.rglob("*")) if path.is_dir() else {path}
            else:
                elsewhere.add(name)
    total = 0
    for size, path in sorted((path.stat().st_size, path) for path in paths if path.is_file()):
        name, total = path.relative_to(folder), total + size
        if total > MOST_BYTES:
            elsewhere.add(str(name))
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
    return tuple(sorted(elsewhere))
