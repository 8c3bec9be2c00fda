"""Files that are whole or absent: written beside, flushed to the disk, then renamed into place.

Archives (those of torch and NumPy are zip files) are checked against their checksums, which torch
does not look at.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from maxk_lab.errors import LONGEST, LabError, RefusedError, shown

PARTIAL = ".partial-"
# The hashes of files as they were when they were read, by their paths.
_hashes: dict[str, tuple[tuple[int, ...], str]] = {}


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
        try:
            with partial.open("wb") as file:
                save(file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with suppress(OSError):  # where the system refuses even that, the first error counts
                partial.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except Exception as error:
        # Libraries such as torch raise an error of their own while they handle that of the system.
        cause: BaseException | None = error
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
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        key = os.path.abspath(path)
        known = _hashes.get(key)
        if known is None or known[0] != stamp:
            known = stamp, hashlib.file_digest(file, "sha256").hexdigest()
            _hashes[key] = known
    return known[1]


@contextmanager
def named_in_sweep(path: str | Path) -> Iterator[None]:
    """Turn what the system says of a path out of a sweep file into a `LabError`.

    It may be of any letters and any length, and lead to anything.
    """
    name = str(path) if len(str(path)) <= LONGEST and str(path).isprintable() else shown(str(path))
    try:
        yield
    except FileNotFoundError:
        raise LabError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LabError(f"{name} cannot be read: {reason}") from None


def check_archive(path: Path) -> None:
    """Raise `ValueError` where a file is no zip file, or a part of it is not what was written.

    Raises `OSError` where it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    # What a damaged header asks for may be anything, such as a password or an unknown compression.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise ValueError(f"it is no whole zip file: {error}") from error
    if bad is not None:
        raise ValueError(f"the checksum of its part {bad} is not that of its bytes")


def remove_partials(folder: Path) -> None:
    """Remove the leftovers of killed writers; only where nobody else writes."""
    for partial in folder.glob(f"{PARTIAL}*"):
        partial.unlink(missing_ok=True)
