"""Drivers and leases: several processes share the units of a run without doing the same work.

Nothing rests on either. A unit that two processes measure costs its time and nothing else, and what
cannot be written here is left out.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from filelock import SoftFileLease, Timeout

from maxk_lab.files import remove_partials

# Seconds without a sign of life after which another process takes a lease.
_EXPIRY = 60.0
# Seconds between two signs of life of a driver, and without one until it is taken for gone.
_BEAT, _GONE = 5.0, 30.0
_TICK = 0.1


@dataclass(frozen=True)
class DriverInfo:
    """A process that works in a run, and the keys of the tasks that it has in hand."""

    id: str
    host: str
    pid: int
    since: str
    # Within it the number of its process is its own, and when that began; empty where the system
    # does not tell.
    namespace: str = ""
    born: str = ""
    tasks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    @classmethod
    def of_this_process(cls) -> Self:
        """Return that of this process, with an id that no other has."""
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        host, pid = os.uname().nodename, os.getpid()
        return cls(secrets.token_hex(4), host, pid, since, _namespace(), _born(pid))

    @property
    def has_ended(self) -> bool:
        """Whether it has ended for certain: it ran beside this process, and does no more."""
        if (self.host, self.namespace) != (os.uname().nodename, _namespace()):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # of another user
        return _born(self.pid) != self.born


class Driver:
    """This process in a run, for a `with` block: it shows itself, and takes leases of tasks.

    It rewrites `<run>/drivers/<id>.json` every few seconds; leases are files in `<run>/leases/`.
    """

    def __init__(self, root: Path, expiry: float = _EXPIRY) -> None:
        self.root, self._expiry = root, expiry
        self.info = DriverInfo.of_this_process()
        self._folder, self._path = root / "leases", root / "drivers" / f"{self.info.id}.json"
        # Those in hand, and those that were tried, which learn by and by that a holder is gone.
        self._held: dict[str, SoftFileLease] = {}
        self._tried: dict[str, SoftFileLease] = {}
        self._over, self._changed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name="driver", daemon=True)

    def __enter__(self) -> Self:
        self._show()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._changed.set()
        self._thread.join()
        for key in list(self._held):
            self.release(key)
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        for folder in (self._folder, self._path.parent):
            with suppress(OSError):
                folder.rmdir()  # where it is empty

    def take(self, key: str) -> bool:
        """Return whether this process has a task now; not where another one at work has it.

        It may have been measured by another one until now: whoever takes a task looks at its
        records again.
        """
        if key in self._held:
            return True
        lease = self._tried.get(key) or SoftFileLease(
            self._folder / key, lease_duration=self._expiry, timeout=0, thread_local=False
        )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lease.acquire()
        except Timeout:
            if self.others():
                self._tried[key] = lease
                return False
            # Of somebody who was killed, whose number another process may have by now.
            with suppress(OSError, Timeout):
                (self._folder / key).unlink(missing_ok=True)
                lease.acquire()
            if not lease.is_locked:
                return True
        except OSError:
            return True  # nothing can be written there; two may do the same work
        self._tried.pop(key, None)
        self._held[key] = lease
        self._changed.set()
        return True

    def release(self, key: str) -> None:
        """Give a task free, if this process has it."""
        lease = self._held.pop(key, None)
        if lease is not None:
            with suppress(OSError):
                lease.release()
            self._changed.set()

    def holder(self, key: str) -> DriverInfo | None:
        """Return the other process that shows that it has a task."""
        return next((one for one in self.others() if key in one.tasks), None)

    def others(self) -> list[DriverInfo]:
        """Return the other processes that show that they work in the run."""
        return [one for one in drivers(self.root) if one.id != self.info.id]

    def remove_leftovers(self) -> None:
        """Remove what processes left half written that were killed, unless any is at work."""
        if not self.others():
            for folder in (self.root, self.root / "cache"):
                remove_partials(folder)

    def _beat(self) -> None:
        while not self._over.wait(_TICK):
            self._changed.wait(_BEAT)
            self._changed.clear()
            self._show()

    def _show(self) -> None:
        told = replace(self.info, tasks=tuple(self._held))
        partial = self._path.with_suffix(".new")
        with suppress(OSError):
            # Another driver removes the folder where it is empty.
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(asdict(told)))
            partial.replace(self._path)


def drivers(root: Path) -> list[DriverInfo]:
    """Return the processes that show that they work in a run, and remove the signs of the dead."""
    found = []
    for path in sorted((root / "drivers").glob("*.json")):
        try:
            told = json.loads(path.read_bytes())
            info = DriverInfo(**told | {"tasks": tuple(told["tasks"])})
            age = time.time() - path.stat().st_mtime
        except (OSError, ValueError, TypeError, LookupError):
            continue
        if age < _GONE and not info.has_ended:
            found.append(info)
        else:
            with suppress(OSError):
                path.unlink()
    return found


def _born(pid: int) -> str:
    """Return when a process began, by which it is told from a later one of the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
