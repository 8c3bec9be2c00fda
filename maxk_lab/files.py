"""Atomic writes: a file is written beside, flushed to the disk, then renamed into place."""

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
    """A file cannot be written, for example because the disk is full; an older file is intact."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` completely or not at all, even if the process or machine crashes.

    Raises `StorageError` if the system refuses to write it.
    """
    save_atomically(path, lambda file: file.write(data))


def save_atomically(path: Path, save: Callable[[BinaryIO], object]) -> None:
    """Write to `path` what `save(file)` writes to the open file, completely or not at all."""
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
        with suppress(OSError):  # if the system refuses this, the first error counts
            partial.unlink(missing_ok=True)
        # Libraries such as torch raise their own error while they handle the system's error.
        cause: BaseException | None = error if isinstance(error, Exception) else None
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise StorageError(f"{path} cannot be written: {cause.strerror or cause}") from error


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that a new name in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_of(path: str | Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits; it is cached until the file changes.

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
    """Raise a `LabError` for an error of the system about a path in a sweep file.

    The path may be invalid, too long, or a special file.
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
    """Return the SHA-256 of a file, 64 hex digits. Raises `LabError` if it cannot be read."""
    with named_in_sweep(path):
        return hash_of(path)


def resolved_file(
    written: Any, name: str, hashed: Callable[[str | Path], str] = hash_of_file
) -> dict[str, str]:
    """Return {"path", "sha256"} of a path, or of such a mapping from a resolved sweep.

    Raises `LabError` for any other value, for a missing file, and for a file that has changed since
    the mapping was made.
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

    Raises `LabError` with the searched folders.
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
    """Remove the leftovers of killed writers; call it only if no other process writes."""
    for partial in folder.glob(f"{PARTIAL}*"):
        partial.unlink(missing_ok=True)
