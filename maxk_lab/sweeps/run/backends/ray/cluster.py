"""The way into a cluster of Ray, what a node of it has room for. No other module imports it."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from maxk_lab.errors import RefusedError, first_line
from maxk_lab.sweeps.run.backends.ray.luggage import Parcel
from maxk_lab.sweeps.run.backends.ray.node import Item, Scratch, measured

# Read when Ray is imported: it tells its makers nothing, and prints no lines of its own to stdout,
# where results belong.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
# Seconds in which a cluster must answer: Ray itself tries for minutes.
_PATIENCE = 10.0
# What a cluster on this machine keeps in memory: little, for all files are there already.
_STORE = 100 * 2**20
# A socket lies in the folder of a local cluster under a name of up to 70 characters, and the system
# allows 107 in all.
_LONGEST_FOLDER = 24


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
def joined(address: str, cpus: int) -> Iterator[Any]:
    """Join the cluster at `address`, and yield Ray; without one start a cluster on this machine.

    That has `cpus` cores. Where this process has joined a cluster already, that one is used. Raises
    `RefusedError` where there is none.
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
    scratch = None if address else Scratch("maxk-ray-", short)
    try:
        _join(address, cpus, scratch)
        yield ray
    finally:
        ray.shutdown()
        if scratch is not None:
            scratch.remove()


def _join(address: str, cpus: int, scratch: Scratch | None) -> None:
    import ray
    from ray.job_config import JobConfig

    class Job(JobConfig):  # type: ignore[misc]
        """A job whose nodes look for no module in the folder where maxk-lab was started."""

        def _runtime_env_has_working_dir(self) -> bool:
            # Ray puts that folder before all others where a job has none of its own. What lies in
            # it would run only for that.
            return True

    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if scratch is not None:
        options |= {
            "num_cpus": cpus,
            "object_store_memory": _STORE,
            "_temp_dir": str(scratch.folder),
        }
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


def measured_on_a_node(parcel: Parcel) -> Iterator[list[Item]]:
    """Measure a unit in a process of Ray's, on whatever node that is."""
    import ray

    yield from measured(parcel, ray.get_runtime_context().get_node_id(), ray.get)
