"""Folders of a node's own: for what a worker writes, and for files that travelled to it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from maxk_lab.files import write_atomically
from maxk_lab.sweeps.run.backends.ray.parcel import Item

# A socket lies in the folder of a local cluster under a name of up to 70 characters, and the system
# allows 107 in all.
_LONGEST_FOLDER = 24
_PREFIX, _HELD = "maxk-lab-node-", ".held"
# At most this share of the time goes into looking for changed files and sending them.
_SHARE = 0.1
# A file of more bytes does not travel: who needs it begins anew.
MOST_BYTES = 2 * 2**30
_Stamp = tuple[int, int, int]


def short_folder() -> str:
    """Return the folder for what is temporary; /tmp where its name is too long for a socket."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= _LONGEST_FOLDER else "/tmp"


class Scratch:
    """A folder of this process alone, which is removed at its end or by the next one here.

    Ray's processes are killed more often than not. So each holds a lock on its folder, and whoever
    comes later removes those that nobody holds.
    """

    def __init__(self, parent: str = "", prefix: str = _PREFIX) -> None:
        place = Path(parent or tempfile.gettempdir())
        for left in place.glob(f"{prefix}*"):
            _remove_unheld(left)
        self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        self._lock = (self.folder / _HELD).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def _remove_unheld(folder: Path) -> None:
    # One that is being made has no file yet, and one of somebody else is for them to remove.
    with suppress(OSError):
        if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
            return
        descriptor = os.open(folder / _HELD, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


class Synced:
    """A folder that holds files of the driver, and in which new ones come to be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        # The hash of every file that the driver has as well, and the stamp under which it has it.
        self._hashes: dict[str, str] = {}
        self._stamps: dict[str, _Stamp] = {}
        self._due = 0.0

    def hold(self, files: Mapping[str, str], fetch: Callable[[str], bytes]) -> None:
        """Hold just these files, by their paths and hashes; those that are there stay."""
        for name in [one for one in self._hashes if one not in files]:
            (self.folder / name).unlink(missing_ok=True)
            del self._hashes[name], self._stamps[name]
        for name, sha256 in files.items():
            path = self.folder / name
            if self._hashes.get(name) != sha256 or not path.exists():
                write_atomically(path, fetch(sha256))
                self._hashes[name], self._stamps[name] = sha256, _stamp(path)
        self._due = time.monotonic()

    def due(self, seconds: float) -> bool:
        """Whether so much time has gone by since the files were looked at, or more if that took."""
        return time.monotonic() >= self._due + seconds

    def changed(self) -> Iterator[Item]:
        """Yield the files that are new or have changed, the oldest first.

        A checkpoint thus never comes before what was written before it.
        """
        begun = time.monotonic()
        for path in sorted(self.folder.iterdir(), key=_written):
            name = path.name
            # Of files that are being written, and folders, nothing is kept.
            if name.startswith(".") or not path.is_file():
                continue
            with suppress(FileNotFoundError):
                stamp = _stamp(path)
                if self._stamps.get(name) == stamp or stamp[2] > MOST_BYTES:
                    continue
                data = path.read_bytes()
                sha256 = hashlib.sha256(data).hexdigest()
                known, self._stamps[name] = self._hashes.get(name), stamp
                if known != sha256:
                    self._hashes[name] = sha256
                    yield "cache_file", {"name": name, "data": data}
        now = time.monotonic()
        self._due = now + (now - begun) / _SHARE


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
