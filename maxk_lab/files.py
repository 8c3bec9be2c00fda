"""Files that are whole or absent: written beside, flushed to the disk, then renamed into place."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from maxk_lab.errors import LONGEST, LabError, RefusedError, shown
from maxk_lab.installed import project_folders

PARTIAL = ".partial-"


class StorageError(RefusedError):
    """A file that cannot be written, as on a full disk; what was there before is whole."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`: all or nothing, whenever the process or the machine may crash.

    Raises `StorageError` where the system refuses to write it.
    """
    save_atomically(path, lambda file: file.write(data))


def save_atomically(path: Path, save: Callable[[BinaryIO], object]) -> None:
    """Write to `path` what `save(file)` writes to the open file: all or nothing, as above."""
    partial = path.with_name(f"{PARTIAL}{path.name}-{os.getpid()}-{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):  # where the system refuses even that, the first error counts
            partial.unlink(missing_ok=True)
        # Libraries such as torch raise an error of their own while they handle that of the system.
        cause: BaseException | None = error if isinstance(error, Exception) else None
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise StorageError(f"{path} cannot be written: {cause.strerror or cause}") from error


def sync_folder(folder: Path) -> None:
    """Have a folder on the disk, so that a new name in it survives a power cut, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_of(path: str | Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits; it is read once until it is written.

    Raises `OSError`.
    """
    status = os.stat(path)
    stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return _hash(os.path.abspath(path), stamp)


@cache
def _hash(path: str, stamp: tuple[int, ...]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def named_in_sweep(path: str | Path) -> Iterator[None]:
    """Turn what the system says of a path out of a sweep file into a `LabError`.

    It may be of any letters and any length, and lead to anything.
    """
    name = _quoted(str(path))
    try:
        yield
    except FileNotFoundError:
        raise LabError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LabError(f"{name} cannot be read: {reason}") from None


def hash_of_file(path: str | Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits. Raises `LabError` where it cannot be read."""
    with named_in_sweep(path):
        return hash_of(path)


def resolved_file(
    written: Any, name: str, hashed: Callable[[str | Path], str] = hash_of_file
) -> dict[str, str]:
    """Return {"path", "sha256"} of a path, or of such a mapping, which a resolved sweep file has.

    Raises `LabError` for what is neither, for a file that is not there, and for one that is no
    longer what the mapping says.
    """
    keys = dict(written) if isinstance(written, Mapping) else {"path": written}
    path, expected = keys.pop("path", None), keys.pop("sha256", None)
    if not isinstance(path, str) or not path or keys:
        raise LabError(f"{name} must be the path of a file, got {shown(written)}")
    path = placed(path)
    content = hashed(path)
    if expected is not None and content != expected:
        raise LabError(f"{path} has changed: its SHA-256 was {expected} and is {content}")
    return {"path": path, "sha256": content}


def placed(path: str) -> str:
    """Return the path of a file in the current folder or beside the sweep file; `~` is the home.

    Raises `LabError` that names the folders where it was looked for.
    """
    place = os.path.expanduser(path)
    folders = [] if os.path.isabs(place) else project_folders()
    for candidate in (place, *(os.path.join(folder, place) for folder in folders)):
        if os.path.exists(candidate):
            return candidate
    looked = f" (looked in {' and '.join(folders)})" if folders else ""
    raise LabError(f"{_quoted(place)} does not exist{looked}")


def _quoted(path: str) -> str:
    return path if len(path) <= LONGEST and path.isprintable() else shown(path)


def remove_partials(folder: Path) -> None:
    """Remove the leftovers of killed writers; only where nobody else writes."""
    for partial in folder.glob(f"{PARTIAL}*"):
        partial.unlink(missing_ok=True)
