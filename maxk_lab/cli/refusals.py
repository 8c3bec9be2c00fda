"""Refusals of the system in a line: rights, room on the disk, files, memory."""

from __future__ import annotations

import errno

from maxk_lab.errors import LONGEST, shortened

# No bug of the program's own has these numbers, while a file that is not there may be one.
REFUSALS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.ENAMETOOLONG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
}


def refusal(error: OSError | MemoryError) -> str | None:
    """Return what the system refused, with the file if there is one; None for any other error."""
    if isinstance(error, MemoryError):
        return "out of memory"
    if error.errno not in REFUSALS:
        return None
    file = f"{shortened(str(error.filename), LONGEST)}: " if error.filename else ""
    return f"{file}{error.strerror}"
