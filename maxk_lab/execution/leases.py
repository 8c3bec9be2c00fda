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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import psutil
from filelock import SoftFileLease, Timeout

from maxk_lab.files import remove_partials

# Seconds without a sign of life after which another process takes a lease.
_EXPIRY = 60.0
# Seconds between two signs of life of a driver, and without one until it is taken for gone.
_BEAT, _GONE = 1.0, 30.0


@dataclass(frozen=True)
class DriverInfo:
    """A process that works in a run; `tasks` has the progress of each that it has in hand.

    Its number is its own within a `namespace`: jobs of a cluster may have one each.
    """

    id: str
    host: str
    pid: int
    since: str
    namespace: str
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class Driver:
    """This process in a run, for a `with` block: it shows itself, and takes leases of tasks.

    It rewrites `<run>/drivers/<id>.json` as it goes on; leases are files in `<run>/leases/`.
    """

    def __init__(self, root: Path, expiry: float = _EXPIRY) -> None:
        self.root, self._expiry = root, expiry
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        where = os.uname().nodename, os.getpid(), since, _namespace()
        self.info = DriverInfo(secrets.token_hex(4), *where)
        self._folder, self._path = root / "leases", root / "drivers" / f"{self.info.id}.json"
        # Those in hand, and every lease that was tried: it learns by and by that a holder is gone.
        self._tasks: dict[str, Mapping[str, Any]] = {}
        self._leases: dict[str, SoftFileLease] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="driver", daemon=True)

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        for key in list(self._tasks):
            self.release(key)
        # With the leases of drivers that were killed.
        gone = [] if self.others() else [*self._folder.glob("*")]
        for path in (*gone, self._path):
            with suppress(OSError):
                path.unlink()
        for folder in (self._folder, self._path.parent):
            with suppress(OSError):
                folder.rmdir()  # where it is empty

    def take(self, key: str) -> bool:
        """Return whether this process has a task now; not where another one at work has it.

        It may have been measured by another one until now: whoever takes a task looks at its
        records again.
        """
        if key in self._tasks:
            return True
        if key not in self._leases:
            self._leases[key] = SoftFileLease(
                self._folder / key, lease_duration=self._expiry, timeout=0, thread_local=False
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._leases[key].acquire()
        except Timeout:
            if self.others():
                return False
            # Who was killed while it took this lease has left no sign of its own in it.
            with suppress(OSError):
                (self._folder / key).unlink()
        except OSError:
            pass  # where nothing can be written two may do the same work
        self._tasks[key] = {}
        return True

    def release(self, key: str) -> None:
        """Give a task free, if this process has it."""
        if self._tasks.pop(key, None) is not None:
            with suppress(OSError):
                self._leases.pop(key).release()

    def show(self, key: str, progress: Mapping[str, Any]) -> None:
        """Show how far a task is that this process has."""
        if key in self._tasks:
            self._tasks[key] = progress

    def holder(self, key: str) -> DriverInfo | None:
        """Return the other process that shows that it has a task."""
        return next((one for one in self.others() if key in one.tasks), None)

    def others(self) -> list[DriverInfo]:
        """Return the other processes that show that they work in the run."""
        return [one for one in drivers(self.root) if one.id != self.info.id]

    def remove_leftovers(self) -> None:
        """Remove what processes left half written that were killed, unless any is at work."""
        if not self.others():
            for folder in (self.root, self.root / "records", self.root / "cache"):
                remove_partials(folder)

    def _beat(self) -> None:
        while not self._over.wait(_BEAT):
            self._write()

    def _write(self) -> None:
        partial = self._path.with_suffix(".new")
        with suppress(OSError):
            # Another driver removes the folder where it is empty.
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(asdict(replace(self.info, tasks=dict(self._tasks)))))
            partial.replace(self._path)


def drivers(root: Path) -> list[DriverInfo]:
    """Return the processes that show that they work in a run, and remove the signs of the dead."""
    living = []
    for path in sorted((root / "drivers").glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            info = DriverInfo(**json.loads(path.read_bytes()))
            beside = (info.host, info.namespace) == (os.uname().nodename, _namespace())
            ended = beside and not psutil.pid_exists(info.pid)
            if ended or time.time() - path.stat().st_mtime > _GONE:
                path.unlink()
            else:
                living.append(info)
    return living


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
