"""Files of drivers and leases, read only where they are files: anybody may put things there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from maxk_lab.errors import RefusedError

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
# A file on NFS that is replaced while it is read is stale, and its successor is there already.
_TRIES = 5


def read_in(folder: int, name: str, path: Path, most: int) -> bytes:
    """Return at most `most` bytes of the file `name` in an open folder, of which `path` is told.

    Raises `FileNotFoundError` where there is none, and `RefusedError` where it is no regular file.
    """
    for left in reversed(range(_TRIES)):
        try:
            file = os.open(name, _FLAGS, dir_fd=folder)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    break
                return os.read(file, most)
            finally:
                os.close(file)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno == errno.ESTALE and left:
                continue
            raise refused(path / name, error) from error
    raise _no_file(path / name)


def refused(path: Path, error: OSError) -> RefusedError:
    """Return the error that says what lies in the way, or why the system refuses to read it."""
    if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
        return _no_file(path)
    return RefusedError(f"{path} cannot be read: {error.strerror}")


def _no_file(path: Path) -> RefusedError:
    return RefusedError(
        f"{path} must be a regular file, which says who works in the run; remove what lies there"
    )
