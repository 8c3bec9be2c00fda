"""Drivers and leases: several processes share the units of a run without measuring one twice.

Records do not depend on leases. If two processes measure one unit, only time is lost, so errors of
the file system are ignored here.
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
from typing import TYPE_CHECKING, Any, Self

from maxk_lab.files import remove_partials

if TYPE_CHECKING:
    from filelock import SoftFileLease

# Seconds without a sign of life after which another driver takes a lease.
_EXPIRY = 60.0
# Seconds between two signs of life of a driver, and without one until it counts as dead.
_BEAT, _DEAD = 1.0, 30.0


@dataclass(frozen=True)
class DriverInfo:
    """A process that works in a run; `tasks` has the progress of each task that it leases.

    `pid` is unique within a `namespace`: each job of a cluster may have its own.
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
    """This process in a run, as a `with` block: it announces itself, and leases tasks.

    It rewrites `<run>/drivers/<id>.json` each second; leases are files in `<run>/leases/`.
    """

    def __init__(self, root: Path, expiry: float = _EXPIRY) -> None:
        self.root, self._expiry = root, expiry
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        machine = os.uname().nodename, os.getpid(), since, _namespace()
        self.info = DriverInfo(secrets.token_hex(4), *machine)
        self._folder, self._path = root / "leases", root / "drivers" / f"{self.info.id}.json"
        self._tasks: dict[str, Mapping[str, Any]] = {}
        # A lease must be kept: it detects expiry over several tries.
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
        # The last driver removes the leases of killed drivers, too.
        leftovers = [] if self.others() else [*self._folder.glob("*")]
        for path in (*leftovers, self._path):
            with suppress(OSError):
                path.unlink()
        for folder in (self._folder, self._path.parent):
            with suppress(OSError):
                folder.rmdir()  # if it is empty

    def take(self, key: str) -> bool:
        """Lease a task; return False if another living driver has it.

        The other driver may have released it meanwhile, so read its records again.
        """
        # A run with nothing to measure does not import the library of leases.
        from filelock import SoftFileLease, Timeout

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
            # A driver that was killed during `acquire` left a lease without its name.
            with suppress(OSError):
                (self._folder / key).unlink()
        except OSError:
            pass
        self._tasks[key] = {}
        return True

    def release(self, key: str) -> None:
        """Release a task, if this driver has it."""
        if self._tasks.pop(key, None) is not None:
            with suppress(OSError):
                self._leases.pop(key).release()

    def show(self, key: str, progress: Mapping[str, Any]) -> None:
        """Show the progress of a task of this driver."""
        if key in self._tasks:
            self._tasks[key] = progress

    def holder(self, key: str) -> DriverInfo | None:
        """Return the other driver that shows this task, if any."""
        return next((info for info in self.others() if key in info.tasks), None)

    def others(self) -> list[DriverInfo]:
        """Return the other living drivers of the run."""
        return [info for info in drivers(self.root) if info.id != self.info.id]

    def remove_leftovers(self) -> None:
        """Remove half-written files of killed processes, unless another driver is at work."""
        if not self.others():
            for folder in (self.root, self.root / "records", self.root / "cache"):
                remove_partials(folder)

    def _beat(self) -> None:
        while not self._over.wait(_BEAT):
            self._write()

    def _write(self) -> None:
        partial = self._path.with_suffix(".new")
        with suppress(OSError):
            # Another driver may have removed the folder.
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(asdict(replace(self.info, tasks=dict(self._tasks)))))
            partial.replace(self._path)


def drivers(root: Path) -> list[DriverInfo]:
    """Return the living drivers of a run, and remove the files of dead ones."""
    living = []
    for path in sorted((root / "drivers").glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            info = DriverInfo(**json.loads(path.read_bytes()))
            same_machine = (info.host, info.namespace) == (os.uname().nodename, _namespace())
            ended = same_machine and not _is_running(info.pid)
            if ended or time.time() - path.stat().st_mtime > _DEAD:
                path.unlink()
            else:
                living.append(info)
    return living


def _is_running(pid: int) -> bool:
    with suppress(PermissionError):  # a process of another user
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
