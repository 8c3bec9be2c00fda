"""Clusters of Ray. This is the only module that imports it, and only when it is used."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxk_lab.errors import RefusedError, first_line
from maxk_lab.sweeps.run.backends.ray.cluster import Cluster, Heard, Needs, Node
from maxk_lab.sweeps.run.backends.ray.losses import last_line, reason
from maxk_lab.sweeps.run.backends.ray.parcel import Item, Parcel
from maxk_lab.sweeps.run.backends.ray.scratch import Scratch, short_folder

# Read when Ray is imported: it tells its makers nothing, and prints no lines of its own to stdout,
# where results belong.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
# Batches of events that a task may be ahead of who reads them; beyond that it waits.
_AHEAD = 16
# Seconds in which a cluster must answer: Ray itself tries for minutes.
_PATIENCE = 10.0
# What a cluster on this machine keeps in memory: little, for all files are there already.
_STORE = 100 * 2**20


@contextlib.contextmanager
def opened(address: str, cpus: int) -> Iterator[Cluster]:
    """Join the cluster at `address`; without one start a cluster of `cpus` cores on this machine.

    Where this process has joined one already, that one is used. Raises `RefusedError` where there
    is none.
    """
    ray = _ray()
    own, scratch = not ray.is_initialized(), None
    try:
        if own and not address:
            scratch = Scratch(short_folder(), "maxk-ray-")
        if own:
            _join(address, cpus, scratch.folder if scratch else None)
        cluster = Here(str(scratch.folder) if scratch else "")
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        if own:
            ray.shutdown()
        if scratch is not None:
            scratch.remove()


def _ray() -> Any:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise RefusedError(
            f"backend ray needs Ray ({first_line(error)}); install it: pip install 'maxk-lab[ray]'"
        ) from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _join(address: str, cpus: int, folder: Path | None) -> None:
    import ray
    from ray.job_config import JobConfig

    class Job(JobConfig):  # type: ignore[misc]
        """A job whose nodes look for no module in the folder where maxk-lab was started."""

        def _runtime_env_has_working_dir(self) -> bool:
            # Ray puts that folder before all others where a job has none of its own. What lies in
            # it would run only for that.
            return True

    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if folder is not None:
        options |= {"num_cpus": cpus, "object_store_memory": _STORE, "_temp_dir": str(folder)}
        options |= {"include_dashboard": False}
    try:
        host, _, port = address.rpartition(":")
        if port.isdigit():
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        ray.init(address=address or "local", job_config=Job(), **options)
    except Exception as error:  # Ray raises many kinds
        where = f"no Ray cluster at {address}" if address else "no Ray cluster can be started here"
        raise RefusedError(
            f"{where}: {first_line(error)}; execution.address names another, "
            "and without it a run starts one on this machine"
        ) from error


class Here:
    """The cluster that this process has joined."""

    def __init__(self, scratch: str) -> None:
        import ray

        self.scratch = scratch
        self._run = ray.remote(max_retries=0, max_calls=0)(_measured)
        self._tasks: dict[Any, int] = {}
        self._kept: dict[str, Any] = {}

    def nodes(self) -> list[Node]:
        """Return the nodes that are up."""
        import ray

        return [
            Node(one["NodeID"], one["NodeManagerHostname"], one["Resources"])
            for one in ray.nodes()
            if one["Alive"]
        ]

    def keep(self, sha256: str, data: bytes) -> None:
        """Take the content of a file into the store of the cluster."""
        import ray

        if sha256 not in self._kept:
            self._kept[sha256] = ray.put(data)

    def forget(self, hashes: Collection[str]) -> None:
        """Let these contents go."""
        for sha256 in hashes:
            self._kept.pop(sha256, None)

    def start(self, number: int, parcel: Parcel, needs: Needs, without: Collection[str]) -> None:
        """Submit a task, which Ray never begins again: when to do so is the driver's to say."""
        options: dict[str, Any] = {"num_cpus": needs.cpus, "num_gpus": needs.gpus}
        if needs.memory:
            options["memory"] = needs.memory
        if without:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(without))})"}
        # Inside a list they travel only to a node that asks for them.
        contents = {sha256: [self._kept[sha256]] for sha256 in parcel.hashes}
        task = self._run.options(
            name=f"maxk-lab {parcel.task.label}",
            num_returns="streaming",
            _generator_backpressure_num_objects=_AHEAD,
            **options,
        ).remote(parcel, contents)
        self._tasks[task] = number

    def poll(self, seconds: float) -> list[Heard]:
        """Wait until some task has told something, and take in what each that has told last."""
        import ray

        tasks = list(self._tasks)
        if not tasks:
            time.sleep(seconds)
            return []
        ready, _ = ray.wait(tasks, num_returns=1, timeout=seconds)
        if ready and len(tasks) > 1:
            ready, _ = ray.wait(tasks, num_returns=len(tasks), timeout=0)
        return [self._next(task) for task in ready]

    def _next(self, task: Any) -> Heard:
        import ray
        from ray.exceptions import RayError, RayTaskError

        number = self._tasks[task]
        try:
            return Heard(number, ray.get(next(task)))
        except StopIteration:
            del self._tasks[task]
            return Heard(number, ended=True)
        except RayTaskError as error:
            raise RefusedError(
                f"a node cannot measure anything: {last_line(error)}; "
                "maxk-lab must be installed on every node"
            ) from error
        except RayError as error:
            del self._tasks[task]
            why, detail = reason(error)
            return Heard(number, lost=why, detail=detail)

    def cancel(self, number: int) -> None:
        """End a task with its process; its workers end with that."""
        import ray

        for task in [one for one, other in self._tasks.items() if other == number]:
            del self._tasks[task]
            ray.cancel(task, force=True)

    def close(self) -> None:
        """End every task."""
        for number in list(self._tasks.values()):
            self.cancel(number)
        self._kept.clear()


def _measured(parcel: Parcel, contents: Mapping[str, Sequence[Any]]) -> Iterator[Sequence[Item]]:
    """Measure a unit in a process of Ray's, on whatever node it is."""
    import ray

    from maxk_lab.sweeps.run.backends.ray.node import measured

    def fetch(sha256: str) -> bytes:
        data: bytes = ray.get(contents[sha256][0])
        return data

    yield from measured(parcel, fetch, ray.get_runtime_context().get_node_id())
