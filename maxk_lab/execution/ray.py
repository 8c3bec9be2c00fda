"""Units as tasks of a Ray cluster: a node measures a unit with a pool, and returns its records."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from maxk_lab.errors import RefusedError, first_line, warn
from maxk_lab.execution.drive import drive
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.pool import Pool
from maxk_lab.execution.provenance import collect_provenance
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.tasks import Event, Modules, Task
from maxk_lab.sweep_file.content import source_files
from maxk_lab.sweep_file.execution import Execution

# Ray sends no statistics, prints no lines to stdout, takes our modules in `ray job submit`, and
# tries to reach a cluster for seconds, not for minutes.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
    "RAY_NUM_REDIS_GET_RETRIES": "4",
}
# Seconds in which the port of a cluster must answer.
_CONNECT_SECONDS = 5.0
# Bytes of shared memory of a cluster on this machine, which only passes records.
_STORE_BYTES = 100 * 2**20
# A socket path has at most 107 characters, and Ray uses up to 70 of them below its folder.
_LONGEST_FOLDER = 24


def measure_on_node(
    task: Task, execution: Execution, modules: Modules, folder: str
) -> tuple[str, list[bytes]]:
    """Measure a unit on this node; return the host and the record lines.

    The node needs the files that the sweep names, in the folder where maxk-lab was started or by
    absolute paths. `folder` is used if the node sees it.
    """
    if Path(folder).is_dir():
        os.chdir(folder)
    with tempfile.TemporaryDirectory(prefix="maxk-lab-") as name:
        # A node that sees the run uses its cache.
        cache = Path(task.root) / "cache"
        if cache.is_dir():
            Path(name, "cache").symlink_to(cache)
        run = RunDirectory(name)
        provenance = collect_provenance() | {"project": task.provenance.get("project")}
        local = replace(task, root=name, provenance=provenance)
        with Driver(run.root) as driver, Pool(execution, 1, [local], modules) as pool:
            drive([local], run, pool, driver, lambda *event: None)
        lines = [path.read_bytes() for path in sorted(run.records_path.glob("*.jsonl"))]
        return socket.gethostname(), lines


class RayBackend:
    """Units as tasks of a Ray cluster, which never retries one: the driver does.

    The modules of the user travel with the job. Raises `RefusedError` if no cluster answers.
    """

    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, modules: Modules
    ) -> None:
        self._run, self._execution, self._jobs, self._modules = run, execution, jobs, modules
        self._address = execution.address or os.environ.get("RAY_ADDRESS", "")
        # The tasks that the cluster has, by Ray's handles.
        self._open: dict[Any, Task] = {}
        self._leaving = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._ray = self._connect()
            self._check_resources()
        except BaseException:
            self._stack.close()
            raise
        self._measure = self._ray.remote(max_retries=0, max_calls=0)(measure_on_node)
        self._run.cache_path.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._cancel_all()
        self._stack.close()

    def _connect(self) -> Any:
        """Join the cluster, or start one with `jobs` cores on this machine; return Ray."""
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            ray = import_module("ray")
        except ImportError as error:
            raise RefusedError(
                f"backend ray needs Ray ({first_line(error)}); install it: "
                "pip install 'maxk-lab[ray]'"
            ) from error
        if ray.is_initialized():
            return ray
        logging.getLogger("ray").setLevel(logging.ERROR)
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if not self._address:
            usual = tempfile.gettempdir()
            folder = tempfile.TemporaryDirectory(
                "",
                "maxk-ray-",
                usual if len(usual) <= _LONGEST_FOLDER else "/tmp",
                ignore_cleanup_errors=True,
            )
            options |= {"num_cpus": self._jobs, "object_store_memory": _STORE_BYTES}
            options |= {"_temp_dir": self._stack.enter_context(folder), "include_dashboard": False}
        try:
            host, _, port = self._address.rpartition(":")
            if port.isdigit():
                address = host.strip("[]"), int(port)
                socket.create_connection(address, _CONNECT_SECONDS).close()
            environment = {"working_dir": self._copy_modules()}
            ray.init(address=self._address or "local", runtime_env=environment, **options)
        except Exception as error:  # Ray raises many kinds
            place = f"at {self._address}" if self._address else "can be started here"
            raise RefusedError(
                f"no Ray cluster {place}: {first_line(error)}; execution.address or RAY_ADDRESS "
                "names another, and without both a run starts one on this machine"
            ) from error
        self._stack.callback(ray.shutdown)
        return ray

    def _copy_modules(self) -> str:
        """Copy the sources of the user's modules into a folder that travels with the job."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="maxk-lab-"))
        for name, path in source_files(self._modules.user).items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, Path(folder, name))
        return folder

    def _check_resources(self) -> None:
        """Warn if no node has what a unit needs. Raises `RefusedError` if none ever will."""
        execution = self._execution
        needs = {"CPU": 1, "GPU": execution.gpus or 0, "memory": execution.memory or 0}
        nodes = [node["Resources"] for node in self._nodes()]
        if any(all(node.get(name, 0) >= most for name, most in needs.items()) for node in nodes):
            return
        words = "1 core, execution.gpus {GPU:g}, memory {memory:,} B".format(**needs)
        if not self._address:
            raise RefusedError(
                f"this machine lacks what a unit needs ({words}), with --jobs {self._jobs}"
            )
        warn(f"no node of the cluster has what a unit needs ({words}); waiting for one")

    @property
    def room(self) -> int:
        """The units that the cluster has cores for, and a few ahead of them."""
        cores = sum(node["Resources"].get("CPU", 0.0) for node in self._nodes())
        return 0 if self._leaving else int(cores * 9 / 8) + 1 - len(self._open)

    def begin(self, task: Task) -> None:
        """Hand a task to the cluster."""
        execution = self._execution
        gpus = execution.gpus
        if gpus is None:
            here = any(node["Resources"].get("GPU") for node in self._nodes())
            gpus = float(task.on_device and here)
        handle = self._measure.options(
            name=f"maxk-lab {task.label}", num_cpus=1, num_gpus=gpus, memory=execution.memory
        ).remote(task, execution, self._modules, str(Path.cwd()))
        self._open[handle] = task

    def events(self, seconds: float, waiting: int) -> Iterator[Event]:
        """Yield the events of tasks that ended."""
        del waiting
        ready, _ = self._ray.wait(
            list(self._open), num_returns=1, timeout=0 if self._leaving else seconds
        )
        for handle in ready:
            task = self._open.pop(handle)
            try:
                host, lines = self._ray.get(handle)
                self._run.append(b"".join(lines))
                yield Event(task.key, "unit_finished", {"host": host})
            except self._ray.exceptions.RayTaskError as error:
                reason = str(error).strip().rpartition("\n")[2]
                raise RefusedError(f"a node cannot measure anything: {reason}") from error
            except self._ray.exceptions.RayError as error:
                # Records travel: they hold no addresses of nodes.
                ending = f"Ray: {type(error).__name__}"
                why = f"the node or its worker is gone ({ending})"
                yield Event(task.key, "lost", {"why": why, "ending": ending, "transient": True})
        if self._leaving:
            keys = [task.key for task in self._open.values()]
            self._cancel_all()
            yield from (Event(key, "left", {}) for key in keys)

    def leave(self, seconds: float) -> None:
        """Cancel every task; a unit goes on later from the checkpoints in the cache."""
        self._leaving = True

    def _cancel_all(self) -> None:
        for handle in self._open:
            self._ray.cancel(handle, force=True)
        self._open.clear()

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]
