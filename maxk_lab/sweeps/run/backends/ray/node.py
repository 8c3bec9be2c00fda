"""A node's part: a unit measured by a supervised worker process, its events and files told.

It runs in a process of Ray's, which keeps the fork server for the next unit. Here are no limits and
no blame: all that is the local backend's, as on the driver's own machine.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
from maxk_lab.sweeps.run.backends.ray.luggage import Luggage, Parcel
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.local import LocalBackend

# An event by its name. Beside those of `Event` there are `blind`, of a node that sees none of the
# driver's folders and needs the unit's luggage, and `refused`, of one that can measure none, with
# `why`.
Item = tuple[str, dict[str, Any]]
Fetch = Callable[[Any], bytes]
# Seconds for which it waits for the worker, and between two looks at the cache.
_TICK, _BETWEEN_LOOKS = 0.5, 10.0
_HELD = ".held"
_desk: _Desk | None = None


def measured(parcel: Parcel, node: str, fetch: Fetch) -> Iterator[list[Item]]:
    """Measure a unit, and yield what there is to tell, batch by batch.

    `node` is Ray's id of this one, and `fetch` returns the content of a file of the luggage.
    """
    global _desk
    host, finished = socket.gethostname(), False
    try:
        refusal = version_refusal(parcel.task.provenance, provenance())
        if refusal is not None:
            raise LabError(refusal)
        home = parcel.arrived_home()
        if not home and parcel.luggage is None:
            yield [("blind", {})]
        else:
            luggage = None if home else parcel.luggage
            if _desk is None or _desk.purpose != _purpose(parcel):
                _leave()
                _desk = _Desk(parcel, luggage, fetch)
            yield from _desk.measure(parcel, luggage, host)
        finished = True
    except LabError as error:
        yield [("refused", {"why": f"{host}: {error}", "node": node})]
    finally:
        if not finished:
            _leave()


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
    our_commit, their_commit = _commit(driver), _commit(node)
    # An installed copy has none.
    if not wrong and our_commit and their_commit and our_commit != their_commit:
        wrong = [f"maxk_lab of commit {their_commit[:7]}, not {our_commit[:7]}"]
    return f"it has {'; '.join(wrong)}: install there what the driver has" if wrong else None


def _versions(provenance: Mapping[str, Any]) -> dict[str, str | None]:
    versions = dict(provenance["versions"])
    versions["python"] = ".".join(str(versions["python"]).split(".")[:2])
    return versions


def _commit(provenance: Mapping[str, Any]) -> str:
    return str((provenance.get("git") or {}).get("commit") or "")


class _Desk:
    """The fork server of this process, and the folder that its workers work in."""

    def __init__(self, parcel: Parcel, luggage: Luggage | None, fetch: Fetch) -> None:
        self.purpose, self._fetch = _purpose(parcel), fetch
        self._scratch: Scratch | None = None
        folder = Path(parcel.folder)
        if luggage is not None:
            for name in luggage.elsewhere:
                if not (os.path.isabs(name) and os.path.exists(name)):
                    raise LabError(
                        f"there is no {name}; name it from the folder where maxk-lab is started, "
                        "and it travels, or put it into a folder that all nodes see"
                    )
            self._scratch = Scratch("maxk-lab-node-", tempfile.gettempdir())
            folder = self._scratch.folder
            self._unpack(luggage.here, folder)
        os.chdir(folder)
        run = RunDirectory(parcel.task.root)
        self._backend = LocalBackend(run, parcel.execution, 1, [parcel.task])

    def measure(self, parcel: Parcel, luggage: Luggage | None, host: str) -> Iterator[list[Item]]:
        """Measure a unit, and yield what there is to tell, batch by batch."""
        root, news = Path(parcel.task.root), None
        if luggage is not None and self._scratch is not None:
            root = self._scratch.folder / ".run"
            shutil.rmtree(root, ignore_errors=True)
            self._unpack(luggage.cache, root / "cache")
            news = News(root / "cache", luggage.patterns)
        # The user's repository is where the driver was started.
        own = provenance() | {"project": parcel.task.provenance.get("project")}
        self._backend.submit(replace(parcel.task, root=str(root), provenance=own))
        going = True
        while going:
            items: list[Item] = []
            for told in self._backend.events(_TICK):
                going = going and told.name != "unit_finished"
                about = {"host": host} if told.name == "unit_started" else {}
                items.append((told.name, told.payload | about))
            if news is not None:
                # Before the records: whoever has those may look for them.
                names = {name for name, _ in items}
                if names & {"cell_done", "unit_finished"} or news.due():
                    yield from ([one] for one in news.changed())
            if items:
                yield items

    def _unpack(self, files: Mapping[str, Any], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_atomically(folder / name, self._fetch(content))

    def close(self) -> None:
        """End the server, and remove what was written."""
        self._backend.__exit__(None, None, None)
        os.chdir("/")
        if self._scratch is not None:
            self._scratch.remove()


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


class Scratch:
    """A folder of this process alone, which is removed at its end or by the next one here.

    Ray's processes are killed more often than not. So each holds a lock on its folder, and whoever
    comes later removes those that nobody holds.
    """

    def __init__(self, prefix: str, place: str) -> None:
        for left in Path(place).glob(f"{prefix}*"):
            # One that is being made has no file yet, and one of somebody else is theirs to remove.
            with suppress(OSError), (left / _HELD).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp("", prefix, place))
        self._lock = (self.folder / _HELD).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()
