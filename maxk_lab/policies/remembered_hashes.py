"""Hashes of large files, kept from one command to the next: weights take seconds for each GB."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from maxk_lab.files import StorageError, hash_of, write_atomically

# Smaller files are read again: that takes less than a tenth of a second.
LARGE = 64 * 2**20
# A file that was written so many seconds ago may be written again without another time of change.
SETTLED = 2.0


def remembered_hash(path: Path) -> str:
    """Return the SHA-256 of a file, which is read only if it has changed since the last time.

    It has not where inode, size and both times are the same, of which the user sets only one.
    Raises `OSError`.
    """
    status = path.stat()
    changed = max(status.st_mtime, status.st_ctime)
    if status.st_size < LARGE:
        return hash_of(path)
    stamp = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    kept = _place(path)
    with suppress(OSError, ValueError, LookupError, TypeError):
        known = json.loads(kept.read_bytes())
        if known["stamp"] == stamp:
            return str(known["sha256"])
    begun = time.time()
    found = hash_of(path)
    if begun - changed > SETTLED:
        with suppress(StorageError, OSError):
            write_atomically(kept, json.dumps({"stamp": stamp, "sha256": found}).encode())
    return found


def _place(path: Path) -> Path:
    """The file that keeps the hash of the file at a path."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:32]
    return Path(folder) / "maxk-lab" / "hashes" / f"{name}.json"
