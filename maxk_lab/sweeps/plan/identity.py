"""The identity of cells: a versioned hash of their resolved meaning, one name for equal work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from maxk_lab.policies.catalogue import PRETRAINED_FOLDER

# Raised whenever the same cell would be measured differently; records of another version are stale.
IDENTITY_VERSION = 1
# The keys of a file that a sweep names, once it is resolved.
FILE_KEYS = {"path", "sha256"}
# What is behind the names in a sweep, by these names: the hash of code or of files, and of a plugin
# its package and version.
Content = Mapping[str, Mapping[str, str]]


def canonical_json(obj: Any) -> str:
    """Return `obj` as JSON with sorted keys and no spaces.

    Raises `ValueError` for NaN and infinities, `TypeError` for what JSON has no word for.
    """
    return _ENCODER.encode(_positive_zero(obj))


def content_hash(obj: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of the canonical JSON of `obj`."""
    return _hashed(canonical_json(obj))


class SharedHash:
    """The content hashes of mappings that share all but the values of a few keys.

    What they share is written once.
    """

    def __init__(self, shared: Mapping[str, Any], keys: Sequence[str]) -> None:
        self._order = [keys.index(key) for key in sorted(keys)]
        # The texts around the values of the keys: a mark that is nowhere else stands for each.
        self._texts: list[str] = []
        mark = ""
        while len(self._texts) != len(keys) + 1:
            mark += "\0"
            text = canonical_json({**shared, **dict.fromkeys(keys, mark)})
            self._texts = text.split(canonical_json(mark))

    def of(self, values: Sequence[Any]) -> str:
        """Return the content hash of the mapping with these values of its keys."""
        first, *others = self._texts
        pairs = zip(self._order, others, strict=True)
        texts = [f"{_written(values[number])}{text}" for number, text in pairs]
        return _hashed("".join((first, *texts)))


def without_defaults(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` without those that are as in `defaults`.

    A setting that came later than the first records is left out of the identity in this way while
    it is at its default, so that the cells that were there before it keep their ids and seeds.
    """
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or value != defaults[name]
    }


def without_paths(obj: Any) -> Any:
    """Return `obj` with the hash alone of every file in it: its content tells a file apart.

    The folder of a model is left out: its hash is among the content of what a sweep names.
    """
    if not isinstance(obj, Mapping):
        return obj
    if set(obj) == FILE_KEYS:
        return {"sha256": obj["sha256"]}
    return {
        key: without_paths(value)
        for key, value in obj.items()
        if not (value and key == PRETRAINED_FOLDER.name and isinstance(value, str))
    }


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# The axes of a grid have few values, and each of them many cells.
@lru_cache(maxsize=1024, typed=True)
def _written(value: Any) -> str:
    return canonical_json(value)


def _positive_zero(obj: Any) -> Any:
    """Return `obj` without -0.0, which means what 0.0 means but is spelt differently in JSON."""
    if isinstance(obj, float):
        return obj + 0.0
    if isinstance(obj, Mapping):
        return {key: _positive_zero(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_positive_zero(value) for value in obj]
    return obj
