"""Units as tasks of a Ray cluster: a node measures a unit with a pool, and returns its records."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
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

# Ray sends no statistics, prints no lines to stdout, ships our modules in `ray job submit`, and
# gives up on a cluster after seconds instead of minutes.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
    "RAY_NUM_REDIS_GET_RETRIES": "2",
}
# Seconds in which the port of a cluster must answer to the first bytes of HTTP/2; Ray waits longer.
_CONNECT_SECONDS = 4.0
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
# Bytes of shared memory of a cluster on this machine, which only passes records.
_STORE_BYTES = 100 * 2**20


def measure_on_node(task: Task, execution: Execution, modules: Modules, folder: str) -> list[bytes]:
    """Measure a unit on this node; return its record lines.

    Files that the sweep names lie in `folder`, if the node sees it, or have absolute paths. A node
    that sees the run uses its cache.
    """
    if Path(folder).is_dir():
        os.chdir(folder)
    with tempfile.TemporaryDirectory(prefix="maxk-lab-") as name:
        cache = Path(task.root) / "cache"
        if cache.is_dir():
            Path(name, "cache").symlink_to(cache)
        provenance = collect_provenance() | {"project": task.provenance.get("project")}
        local, run = replace(task, root=name, provenance=provenance), RunDirectory(name)
        with Driver(run.root) as driver, Pool(execution, 1, [local], modules) as pool:
            drive([local], run, pool, driver, lambda *event: None)
        return [path.read_bytes() for path in sorted(run.records_path.glob("*.jsonl"))]


class RayBackend:
    """Units as tasks of a Ray cluster."""

    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, modules: Modules
    ) -> None:
        self._run, self._execution, self._jobs, self._modules = run, execution, jobs, modules
        self._address = execution.address or ""
        if self._address in ("", "auto"):
            self._address = os.environ.get("RAY_ADDRESS") or self._address
        # The tasks of the cluster, by Ray's handles.
        self._open: dict[Any, Task] = {}
        self._leaving = False

    def __enter__(self) -> Self:
        """Join the cluster, or start one. Raises `RefusedError` if there is none."""
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            self._ray = import_module("ray")
        except ImportError as error:
            install = "install it: pip install 'maxk-lab[ray]'"
            raise RefusedError(f"backend ray needs Ray ({first_line(error)}); {install}") from error
        self._join()
        try:
            self._check_resources()
        except RefusedError:
            self.__exit__()
            raise
        self._measure = self._ray.remote(max_retries=0, max_calls=0)(measure_on_node)
        self._run.cache_path.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._ray.shutdown()  # it ends the tasks, too

    def _join(self) -> None:
        """Join the cluster, or start one with `jobs` cores on this machine."""
        logging.getLogger("ray").setLevel(logging.ERROR)
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if not self._address:
            options |= {"num_cpus": self._jobs, "object_store_memory": _STORE_BYTES}
            options |= {"include_dashboard": False}
        # The user's modules travel with the job.
        with tempfile.TemporaryDirectory(prefix="maxk-lab-") as folder:
            for name, path in source_files(self._modules.user).items():
                (copy := Path(folder, name)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            try:
                host, _, port = self._address.rpartition(":")
                if port.isdigit():
                    _check_answer(host.strip("[]"), int(port))
                options |= {"runtime_env": {"working_dir": folder}}
                self._ray.init(address=self._address or "local", **options)
            except Exception as error:  # Ray raises many kinds
                where = f"at {self._address}" if self._address else "can be started here"
                raise RefusedError(
                    f"no Ray cluster {where}: {first_line(error)}; execution.address or "
                    "RAY_ADDRESS names another; without both a run starts one on this machine"
                ) from error

    def _nodes(self) -> list[dict[str, float]]:
        """Return the resources of the living nodes."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _check_resources(self) -> None:
        """Warn if no node has what a unit needs. Raises `RefusedError` if none ever will."""
        gpus, memory = self._execution.gpus or 0, self._execution.memory or 0
        needs = {"CPU": 1, "GPU": gpus, "memory": memory}
        if any(all(node.get(name, 0) >= needs[name] for name in needs) for node in self._nodes()):
            return
        words = f"1 core, execution.gpus {gpus:g}, memory {memory:,} B"
        if not self._address:
            raise RefusedError(f"this machine lacks what a unit needs: {words}")
        warn(f"no node of the cluster has what a unit needs ({words}); waiting for one")

    @property
    def room(self) -> int:
        """The units that the cluster has cores for, and a few ahead of them."""
        cores = sum(node.get("CPU", 0.0) for node in self._nodes())
        return 0 if self._leaving else int(cores * 9 / 8) + 1 - len(self._open)

    def begin(self, task: Task) -> None:
        """Hand a task to the cluster."""
        gpus, memory = self._execution.gpus, self._execution.memory
        if gpus is None:
            gpus = float(task.on_device and any(node.get("GPU") for node in self._nodes()))
        options = {"num_cpus": 1, "num_gpus": gpus, "memory": memory}
        measure = self._measure.options(name=f"maxk-lab {task.label}", **options)
        handle = measure.remote(task, self._execution, self._modules, str(Path.cwd()))
        self._open[handle] = task

    def events(self, seconds: float, waiting: int) -> Iterator[Event]:
        """Yield the ends of tasks. Raises `RefusedError` if a node cannot measure at all."""
        del waiting
        errors = self._ray.exceptions
        ready, _ = self._ray.wait(list(self._open), num_returns=1, timeout=seconds)
        for handle in ready:
            task = self._open.pop(handle)
            try:
                self._run.append(b"".join(self._ray.get(handle)))
                yield Event(task.key, "unit_finished", {})
            except errors.RayTaskError as error:
                reason = str(error).strip().rpartition("\n")[2]
                raise RefusedError(f"a node cannot measure anything: {reason}") from error
            except errors.RayError as error:
                # Records hold no addresses of nodes.
                why = f"the node or its worker is gone (Ray: {type(error).__name__})"
                fault = ("left", {}) if self._leaving else ("lost", {"why": why})
                yield Event(task.key, *fault)

    def leave(self, seconds: float) -> None:
        """Cancel every task; a unit resumes later from the checkpoints in the cache."""
        self._leaving = True
        for handle in self._open:
            self._ray.cancel(handle, force=True)


def _check_answer(host: str, port: int) -> None:
    """Raise `OSError` if nothing answers at the port."""
    with socket.create_connection((host, port), _CONNECT_SECONDS) as line:
        line.sendall(_GREETING)
        if not line.recv(1):
            raise ConnectionError("the port closes every connection")
