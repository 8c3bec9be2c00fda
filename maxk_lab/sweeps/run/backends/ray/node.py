"""A node's part: a unit measured by a supervised worker process, its events and files told.

It runs in a process of Ray's, which keeps the fork server for the next unit. Here are no limits and
no blame: all that is the local backend's, as on the driver's own machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
from maxk_lab.sweeps.run.backends.ray.travel import Parcel
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.local import LocalBackend

# An event by its name. Beside those of `Event` there is `refused`, of a node that can measure no
# unit, with `why`.
Item = tuple[str, dict[str, Any]]
Fetch = Callable[[Any], bytes]
# The folder of a job's files in the one where Ray starts its processes.
FILES = "maxk-lab-files"
# Seconds for which it waits for the worker, and between two looks at the cache.
_TICK, _BETWEEN_LOOKS = 0.5, 10.0
_START = Path.cwd()
_desk: _Desk | None = None


def measured(parcel: Parcel, node: str, fetch: Fetch) -> Iterator[list[Item]]:
    """Measure a unit, and yield what there is to tell, batch by batch.

    `node` is Ray's id of this one, and `fetch` returns the content of a file of the cache.
    """
    global _desk
    host, finished = socket.gethostname(), False
    try:
        refusal = version_refusal(parcel.task.provenance, provenance())
        if refusal is not None:
            raise LabError(refusal)
        if _desk is None or _desk.purpose != _purpose(parcel):
            _leave()
            _desk = _Desk(parcel, at_home=parcel.is_at_home())
        yield from _desk.measure(parcel, host, fetch)
        finished = True
    except LabError as error:
        yield [("refused", {"why": f"{host}: {error}", "node": node})]
    finally:
        if not finished:
            _leave()


def measured_on_a_node(parcel: Parcel) -> Iterator[list[Item]]:
    """Measure a unit in a process of Ray's, on whatever node that is."""
    import ray

    yield from measured(parcel, ray.get_runtime_context().get_node_id(), ray.get)


def _leave() -> None:
    global _desk
    if _desk is not None:
        desk, _desk = _desk, None
        desk.close()


def _purpose(parcel: Parcel) -> tuple[object, ...]:
    """All that a server was started with: one for another run or other modules is no use."""
    modules = parcel.task.lab, parcel.task.own
    return parcel.driver, os.environ.get("CUDA_VISIBLE_DEVICES"), modules


@cache
def provenance() -> dict[str, Any]:
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
        if theirs.get(name) != version
    ]
    # An installed copy has no commit.
    commits = [str((one.get("git") or {}).get("commit") or "")[:7] for one in (node, driver)]
    if not wrong and all(commits) and commits[0] != commits[1]:
        wrong = [f"maxk_lab of commit {', not '.join(commits)}"]
    return f"it has {'; '.join(wrong)}: install there what the driver has" if wrong else None


def _versions(provenance: Mapping[str, Any]) -> dict[str, str | None]:
    versions = dict(provenance["versions"])
    versions["python"] = ".".join(str(versions["python"]).split(".")[:2])
    return versions


class _Desk:
    """The fork server of this process, and the folder that its workers work in."""

    def __init__(self, parcel: Parcel, *, at_home: bool) -> None:
        self.purpose = _purpose(parcel)
        driven_from = Path(parcel.places[0][0])
        folder = driven_from if at_home else _START / FILES
        if not folder.is_dir():
            raise LabError(f"it does not see {driven_from}, and its files did not travel")
        for name in () if at_home else parcel.elsewhere:
            if not (os.path.isabs(name) and os.path.exists(name)):
                raise LabError(
                    f"there is no {name}; name it from the folder where maxk-lab is started, "
                    "and it travels, or put it into a folder that all nodes see"
                )
        os.chdir(folder)
        # The folder of the run here, where that of the driver is not seen.
        self._root = None if at_home else _START / f"maxk-lab-run-{os.getpid()}"
        run = RunDirectory(parcel.task.root)
        self._backend = LocalBackend(run, parcel.execution, 1, [parcel.task])

    def measure(self, parcel: Parcel, host: str, fetch: Fetch) -> Iterator[list[Item]]:
        """Measure a unit, and yield what there is to tell, batch by batch."""
        root, news = Path(parcel.task.root), None
        if self._root is not None:
            root = self._root
            shutil.rmtree(root, ignore_errors=True)
            (root / "cache").mkdir(parents=True)
            for name, content in parcel.cache.items():
                write_atomically(root / "cache" / name, fetch(content))
            news = News(root / "cache", parcel.patterns)
        # The user's repository is where the driver was started.
        own = provenance() | {"project": parcel.task.provenance.get("project")}
        self._backend.submit(replace(parcel.task, root=str(root), provenance=own))
        going = True
        while going:
            items: list[Item] = []
            for event in self._backend.events(_TICK):
                going = going and event.name != "unit_finished"
                about = {"host": host} if event.name == "unit_started" else {}
                items.append((event.name, event.payload | about))
            if news is not None:
                # Before the records: whoever has those may look for them.
                names = {name for name, _ in items}
                if names & {"cell_done", "unit_finished"} or news.due():
                    yield from ([one] for one in news.changed())
            if items:
                yield items

    def close(self) -> None:
        """End the server, and remove what was written."""
        self._backend.__exit__(None, None, None)
        os.chdir(_START)
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)


class News:
    """Files that are new in a cache, among those that the driver should have."""

    def __init__(self, folder: Path, patterns: tuple[str, ...]) -> None:
        self._folder, self._patterns = folder, patterns
        self._looked = time.monotonic()
        self._times = {path: written for written, path in self._files()}

    def due(self) -> bool:
        """Whether it is long ago that somebody looked."""
        return time.monotonic() >= self._looked + _BETWEEN_LOOKS

    def changed(self) -> Iterator[Item]:
        """Yield the files that are new or have changed, the oldest first.

        A checkpoint thus never comes before what was written before it.
        """
        for written, path in self._files():
            with suppress(FileNotFoundError):
                if self._times.get(path) != written:
                    data, self._times[path] = path.read_bytes(), written
                    yield "cache_file", {"name": path.name, "data": data}
        self._looked = time.monotonic()

    def _files(self) -> list[tuple[int, Path]]:
        files = []
        for path in {path for pattern in self._patterns for path in self._folder.glob(pattern)}:
            with suppress(FileNotFoundError):  # a damaged one is removed
                files.append((path.stat().st_mtime_ns, path))
        return sorted(files)
