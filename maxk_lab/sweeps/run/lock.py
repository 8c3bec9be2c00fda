"""The lock of a run directory: one process writes at a time, and a killed one leaves no lock."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.sweeps.run.links import refuse_links

_NO_FILE = "{} must be a regular file, which holds the lock of the run; remove what lies there"


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of the run directory `root`. Raises `LabError` with the process that has it.

    The system drops an flock when its process ends, however it ends; the file itself stays. Raises
    `LabError`, too, where links would lead the writing to other places.
    """
    root.mkdir(parents=True, exist_ok=True)
    refuse_links(root)
    with _opened(root / ".lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise LabError(
                f"{root} is in use by another run (process {holder}); wait for it or stop it"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
        file.truncate(0)


def _opened(path: Path) -> TextIO:
    """Open the file of the lock, and nothing that somebody has put in its place."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.fdopen(os.open(path, flags, 0o666), "r+")
    except OSError as error:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise RefusedError(_NO_FILE.format(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise RefusedError(_NO_FILE.format(path))
    return file
