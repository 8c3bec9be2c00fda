"""The lock of a run directory: one process writes at a time, and a killed one leaves no lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxk_lab.errors import LabError


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of the run directory `root`. Raises `LabError` with the process that has it.

    The system drops an flock when its process ends, however it ends; the file itself stays.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("a+") as file:
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
