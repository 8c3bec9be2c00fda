"""The folder of a saved language model, seen without loading it. Imports no torch."""

from __future__ import annotations

import hashlib
from pathlib import Path

from maxk_lab.files import hash_of, named_in_sweep


def folder_problem(folder: Path) -> str | None:
    """Return why a folder is none of a saved model; whether all of it is whole, loading tells."""
    try:
        if (folder / "config.json").is_file():
            return None
    except OSError as error:  # such as a name that is too long
        return f"cannot be read: {error.strerror}"
    return "is no folder of a saved model (it has no config.json)"


def folder_hash(folder: str | Path) -> str:
    """Return the SHA-256 of what a folder holds of a model: of the names and hashes of its files.

    Those in folders below, hidden ones and texts for people are none of the model's. Raises
    `LabError` where there is no such folder, or a file cannot be read.
    """
    with named_in_sweep(folder):
        inside = sorted(one for one in Path(folder).iterdir() if one.is_file())
        files = [one for one in inside if not one.name.startswith(".") and one.suffix != ".md"]
        lines = [f"{one.name} {hash_of(one)}\n" for one in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
