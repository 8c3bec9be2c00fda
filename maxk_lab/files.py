"""Files that are whole or absent: written beside, flushed to the disk, then renamed into place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial-"
# Held while a file is being written, so that a worker told to stop does not stop in the middle.
WRITING = threading.Lock()


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`: all or nothing, whenever the process or the machine may crash."""
    save_atomically(path, lambda file: file.write(data))


def save_atomically(path: Path, save: Callable[[BinaryIO], object]) -> None:
    """Write to `path` what `save(file)` writes to the open file: all or nothing, as above."""
    partial = path.with_name(f"{PARTIAL}{path.name}-{os.getpid()}")
    with WRITING:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                save(file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def remove_partials(folder: Path) -> None:
    """Remove the leftovers of killed writers; only for the process that holds the folder's lock."""
    for partial in folder.glob(f"{PARTIAL}*"):
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Flush a folder, so that a rename in it survives a power cut, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
