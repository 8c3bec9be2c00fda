"""Files that are whole or absent: written beside, flushed to the disk, then renamed into place."""

from __future__ import annotations

import os
import threading
from pathlib import Path

PARTIAL = ".partial-"
# Held while a file is being written, so that a worker told to stop does not stop in the middle.
WRITING = threading.Lock()


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`: all or nothing, whenever the process or the machine may crash."""
    partial = path.with_name(f"{PARTIAL}{path.name}-{os.getpid()}")
    with WRITING:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def remove_partials(folder: Path) -> None:
    """Remove what killed writers left behind; only for the one process that holds the folder's lock."""
    for partial in folder.glob(f"{PARTIAL}*"):
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """The rename itself must survive a power cut, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
