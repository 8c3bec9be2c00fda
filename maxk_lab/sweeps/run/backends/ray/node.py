"""A node's part: a unit measured by a supervised worker process, its events and files told.

It runs in a process of Ray's, which keeps the fork server for the next unit. Here are no limits and
no blame: all that is the local backend's, as on the driver's own machine.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.backends.ray.parcel import Item, Parcel
from maxk_lab.sweeps.run.backends.ray.scratch import Scratch, Synced
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.local import LocalBackend

# Seconds for which it waits for the worker, and between two looks at the cache.
_TICK, _BETWEEN_LOOKS = 0.5, 10.0
# Seconds for which an event waits for others to travel with: a message costs more than an event.
_GATHER = 0.02
Fetch = Callable[[str], bytes]
_desk: _Desk | None = None


def measured(parcel: Parcel, fetch: Fetch, node: str) -> Iterator[list[Item]]:
    """Measure a unit, and yield what there is to tell, batch by batch.

    `fetch` returns the content of a file of its luggage by its hash; `node` is Ray's id of this
    one.
    """
    global _desk
    host = socket.gethostname()
    refusal = version_refusal(parcel.provenance, provenance())
    if refusal is not None:
        yield [("refused", {"why": f"{host} has {refusal}", "node": node})]
        return
    try:
        if _desk is None or not _desk.fits(parcel):
            _leave()
            _desk = _Desk(parcel)
        if parcel.luggage is None and not _desk.sees_all(parcel):
            yield [("blind", {})]
            return
        _desk.lay_out(parcel, fetch)
        yield from _desk.measure(parcel, host)
    except LabError as error:
        _leave()
        yield [("refused", {"why": f"{host}: {error}", "node": node})]
    except BaseException:
        _leave()
        raise


def _leave() -> None:
    global _desk
    if _desk is not None:
        desk, _desk = _desk, None
        desk.close()


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
    return f"{'; '.join(wrong)}: install there what the driver has" if wrong else None


def _versions(provenance: Mapping[str, Any]) -> dict[str, str | None]:
    found = dict(provenance["versions"])
    found["python"] = ".".join(str(found["python"]).split(".")[:2])
    return found


def _commit(provenance: Mapping[str, Any]) -> str:
    return str((provenance.get("git") or {}).get("commit") or "")


class _Desk:
    """The fork server of this process, and the folders that its workers work in."""

    def __init__(self, parcel: Parcel) -> None:
        self._about = _about(parcel)
        self._scratch = Scratch(parcel.scratch)
        self._run = RunDirectory(self._scratch.folder / "run")
        self._here = Synced(self._scratch.folder / "here")
        self._cache: Synced | None = None
        if _sees_cache(parcel):
            self._run.root.mkdir()
            self._run.cache_path.symlink_to(parcel.cache)
        else:
            self._cache = Synced(self._run.cache_path)
        self._backend = LocalBackend(self._run, parcel.execution, 1, [parcel.task])
        self._folder = os.getcwd()

    def fits(self, parcel: Parcel) -> bool:
        """Whether the server of the unit before has what this one needs."""
        return self._about == _about(parcel)

    def sees_all(self, parcel: Parcel) -> bool:
        """Whether the unit needs no luggage here."""
        return self._cache is None and _sees_folder(parcel)

    def lay_out(self, parcel: Parcel, fetch: Fetch) -> None:
        """Put the files of a unit where the worker looks for them.

        Raises `LabError` where one is missing.
        """
        luggage = parcel.luggage
        if luggage is None or _sees_folder(parcel):
            folder = Path(parcel.folder)
        else:
            folder = self._here.folder
            self._here.hold(luggage.here, fetch)
            for name in luggage.absent:
                if not (os.path.isabs(name) and os.path.exists(name)):
                    raise LabError(
                        f"there is no {name}; name it from the folder where maxk-lab is started, "
                        "and it travels, or put it into a folder that all nodes see"
                    )
        if self._cache is not None and luggage is not None:
            self._cache.hold(luggage.cache, fetch)
        if str(folder) != self._folder:
            # The server has begun in another folder.
            self._backend.__exit__(None, None, None)
            self._backend = LocalBackend(self._run, parcel.execution, 1, [parcel.task])
            self._folder = str(folder)
        os.chdir(folder)

    def measure(self, parcel: Parcel, host: str) -> Iterator[list[Item]]:
        """Measure a unit, and yield what there is to tell, batch by batch."""
        # The user's repository is where the driver was started.
        own = provenance() | {"project": parcel.provenance.get("project")}
        task = replace(parcel.task, root=str(self._run.root.absolute()), provenance=own)
        self._backend.submit(task)
        items: list[Item] = []
        going, since = True, 0.0
        while going:
            for told in self._backend.events(_GATHER if items else _TICK):
                going = going and told.name != "unit_finished"
                if self._cache is not None and told.name in ("cell_done", "unit_finished"):
                    # Before the record: whoever has that may look for them.
                    yield from ([one] for one in self._cache.changed())
                since = since if items else time.monotonic()
                about = {"host": host} if told.name == "unit_started" else {}
                items.append((told.name, told.payload | about))
            if going and self._cache is not None and self._cache.due(_BETWEEN_LOOKS):
                yield from ([one] for one in self._cache.changed())
            if items and (not going or time.monotonic() - since >= _GATHER):
                yield items
                items = []

    def close(self) -> None:
        """End the server, and remove what was written."""
        self._backend.__exit__(None, None, None)
        os.chdir("/")
        self._scratch.remove()


def _about(parcel: Parcel) -> tuple[object, ...]:
    """All that a server was started with: one for another run or other modules is no use."""
    modules = parcel.task.lab, parcel.task.own
    return parcel.execution, parcel.token, os.environ.get("CUDA_VISIBLE_DEVICES"), modules


def _sees_cache(parcel: Parcel) -> bool:
    return (Path(parcel.cache) / parcel.token).is_file()


def _sees_folder(parcel: Parcel) -> bool:
    """Whether the driver's current folder is here, too: one of its path alone may be another."""
    try:
        return _sees_cache(parcel) and os.stat(parcel.folder).st_ino == parcel.inode
    except OSError:
        return False
