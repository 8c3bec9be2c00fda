"""The folder of a saved language model: what it lacks, seen without loading it. No torch."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from maxk_lab.files import named_in_sweep
from maxk_lab.policies.remembered_hashes import remembered_hash

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.*", "*.model")
# Files that are read as JSON where they are there.
JSON = ("config.json", "tokenizer.json", "tokenizer_config.json", "*.index.json")


def folder_problem(folder: Path) -> str | None:
    """Return what a folder lacks, or which of its files is damaged; None for a whole one."""
    try:
        return _problem(folder)
    except OSError as error:  # such as a name that is too long
        return f"cannot be read: {error.strerror}"


def folder_hash(folder: str | Path) -> str:
    """Return the SHA-256 of what a folder holds of a model: of the names and hashes of its files.

    Those in folders below, hidden ones and texts for people are none of the model's. Raises
    `LabError` where there is no such folder, or a file cannot be read.
    """
    with named_in_sweep(folder):
        files = sorted(one for one in Path(folder).iterdir() if _is_of_model(one))
        lines = [f"{one.name} {remembered_hash(one)}\n" for one in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _is_of_model(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and file.suffix != ".md"


def _problem(folder: Path) -> str | None:
    if not (folder / "config.json").is_file():
        return "is no folder of a saved model (it has no config.json)"
    for what, patterns in (("weights", WEIGHTS), ("tokenizer", TOKENIZERS)):
        if not _files(folder, patterns):
            return f"has no {what}: none of {', '.join(patterns)}"
    for file in _files(folder, JSON):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            return f"has a damaged {file.name}, which must be a mapping in JSON"
    for file in _files(folder, WEIGHTS):
        if file.suffix == ".safetensors" and not _is_whole(file):
            return f"has a damaged {file.name}, which is shorter than it says"
    return None


def _files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(found)


def _is_whole(file: Path) -> bool:
    """Whether a file of safetensors is as long as its header says."""
    there = file.stat().st_size
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > there - 8:
                return False
            header = json.loads(opened.read(length))
        ends = [e["data_offsets"][1] for name, e in header.items() if name != "__metadata__"]
        return bool(8 + length + max(ends, default=0) == there)
    except (OSError, ValueError, RecursionError, AttributeError, LookupError, TypeError):
        return False
