"""Files that a sweep file names: resolved to their path and the hash of their content, which is what they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError


def hash_of_file(path: str | Path) -> str:
    """The SHA-256 of a file, 64 hex digits. Raises `LabError` where there is no readable file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise LabError(f"{path} does not exist") from None
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None


def resolved_file(
    written: Any, name: str, hash_of: Callable[[str | Path], str] = hash_of_file
) -> dict[str, str]:
    """`{"path", "sha256"}` of a path, or of such a mapping, which a resolved sweep file has.

    Raises `LabError` for what is neither, for a file that is not there, and for one that is no longer what the mapping says.
    """
    known = dict(written) if isinstance(written, Mapping) else {"path": written}
    path, expected = known.pop("path", None), known.pop("sha256", None)
    if not isinstance(path, str) or not path or known:
        raise LabError(f"{name} must be the path of a file, got {written!r}")
    found = hash_of(path)
    if expected is not None and found != expected:
        raise LabError(f"{path} has changed: its SHA-256 was {expected} and is {found}")
    return {"path": path, "sha256": found}
