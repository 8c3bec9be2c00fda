"""A node's part: a unit measured by the local backend, its events and files told as they come.

It runs in a process of Ray's, which keeps the fork server for the next unit. Here are no limits:
all that is the local backend's, as on the driver's own machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.execution.backends.backend import Task
from maxk_lab.execution.provenance import collect_provenance
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.supervisor.local import LocalBackend
from maxk_lab.files import write_atomically
from maxk_lab.sweep_file.execution import Execution

# An event by its name, with its payload.
Item = tuple[str, dict[str, Any]]
# The folder of a job's files in the one where Ray starts its processes.
FILES = "maxk-lab-files"
# Seconds for which it waits for the worker, and between two looks at the cache.
_TICK, _BETWEEN_LOOKS = 0.5, 10.0
_START = Path.cwd()
# The backend of this process by what it was started for: one for another run, other devices or
# other modules is no use.
_backends: dict[tuple[object, ...], LocalBackend] = {}


@dataclass(frozen=True)
class Parcel:
    """A unit on its way to a node from a `driver`, which no other one is called.

    `folder` is where maxk-lab was started, and `elsewhere` are the files that have not travelled
    with the job. A node of a cluster on this machine is `here` and uses the cache of the run. To
    others `cache` has files of it by their names, of which they send back what fits `patterns`.
    """

    task: Task
    execution: Execution
    driver: str
    folder: str
    here: bool
    elsewhere: tuple[str, ...]
    patterns: tuple[str, ...]
    cache: Mapping[str, bytes] = field(default_factory=dict)


def measured(parcel: Parcel) -> Iterator[list[Item]]:
    """Measure a unit, and yield what there is to tell, batch by batch.

    Raises `LabError` where this node cannot, or would give other numbers.
    """
    task, here, backend = parcel.task, parcel.here, _backend_for(parcel)
    # The folder of the run, as far as it is on this node.
    root = Path(task.root) if here else _START / f"maxk-lab-run-{os.getpid()}"
    times: dict[str, int] = {}
    finished = False
    try:
        if not here:
            shutil.rmtree(root, ignore_errors=True)
            for name, content in parcel.cache.items():
                write_atomically(root / "cache" / name, content)
            list(new_files(root / "cache", parcel.patterns, times))
        # The user's repository is where the driver was started.
        own = _provenance() | {"project": task.provenance.get("project")}
        looked = time.monotonic()
        backend.submit(replace(task, root=str(root), provenance=own))
        while not finished:
            events = list(backend.events(_TICK))
            names = {event.name for event in events}
            finished = bool(names & {"unit_finished", "lost"})
            # Before the records: whoever has those may look for them.
            late = time.monotonic() - looked >= _BETWEEN_LOOKS
            if not here and (late or names & {"record", "unit_finished", "lost"}):
                yield from ([one] for one in new_files(root / "cache", parcel.patterns, times))
                looked = time.monotonic()
            if events:
                about = {"unit_started": {"host": socket.gethostname()}}
                yield [(one.name, one.payload | about.get(one.name, {})) for one in events]
    finally:
        if not finished:
            _close()
        if not here:
            shutil.rmtree(root, ignore_errors=True)


def _backend_for(parcel: Parcel) -> LocalBackend:
    """Return what measures a unit here. Raises `LabError` where nothing can."""
    task, folder = parcel.task, _START / FILES
    # Where all travelled that lies there, nobody looks whether the folder is seen, and is the same.
    if parcel.here or not (folder.is_dir() and all(map(os.path.isabs, parcel.elsewhere))):
        folder = Path(parcel.folder)
    if (refusal := version_refusal(task.provenance, _provenance())) is not None:
        raise LabError(f"{socket.gethostname()}: {refusal}")
    for name in parcel.elsewhere:
        if not (folder / name).exists():
            raise LabError(
                f"{socket.gethostname()}: there is no {name}; name it from the folder where "
                "maxk-lab is started, and it travels, or put it into a folder that all nodes see"
            )
    purpose = parcel.driver, os.environ.get("CUDA_VISIBLE_DEVICES"), task.lab, task.own
    if purpose not in _backends:
        _close()
        if not folder.is_dir():
            raise LabError(f"a node does not see {parcel.folder}, and its files did not travel")
        os.chdir(folder)
        _backends[purpose] = LocalBackend(RunDirectory(task.root), parcel.execution, 1, [task])
    return _backends[purpose]


def _close() -> None:
    """End the server of this process, if it has one."""
    while _backends:
        _backends.popitem()[1].__exit__()
    os.chdir(_START)


def new_files(folder: Path, patterns: tuple[str, ...], times: dict[str, int]) -> Iterator[Item]:
    """Yield the files that are new since `times`, which is brought up to date, the oldest first.

    A checkpoint thus never comes before what was written before it.
    """
    files = []
    for path in {path for pattern in patterns for path in folder.glob(pattern)}:
        with suppress(FileNotFoundError):  # a damaged one is removed
            files.append((path.stat().st_mtime_ns, path))
    for written, path in sorted(files):
        with suppress(FileNotFoundError):
            if times.get(path.name) != written:
                data, times[path.name] = path.read_bytes(), written
                yield "cache_file", {"name": path.name, "data": data}


@cache
def _provenance() -> dict[str, Any]:
    """Return the provenance of what this process measures."""
    return collect_provenance()


def version_refusal(driver: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return what of a node would give other numbers than the driver's machine; None if nothing.

    Digits may differ between versions of any of these; of Python only those of its second number.
    """
    ours, theirs = _versions(driver), _versions(node)
    wrong = [
        f"{name} {theirs.get(name) or 'not at all'}, not {version}"
        for name, version in ours.items()
        # An installed copy has no commit.
        if theirs.get(name) != version and (name != "commit" or name in theirs)
    ]
    return f"it has {'; '.join(wrong)}: install there what the driver has" if wrong else None


def _versions(provenance: Mapping[str, Any]) -> dict[str, str | None]:
    versions, commit = dict(provenance["versions"]), (provenance.get("git") or {}).get("commit")
    versions["python"] = ".".join(str(versions["python"]).split(".")[:2])
    return versions | ({"commit": commit[:7]} if commit else {})
