"""The identity of cells: a versioned hash of their resolved meaning, one name for equal work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from maxk_lab.policies.catalogue import PRETRAINED_FOLDER

# Raised whenever the same cell would be measured differently; records of another version are stale.
IDENTITY_VERSION = 1
# Settings that no longer exist, by their path, with the value that older ids and seeds hash.
# The owner of a setting of `environment` or `policy` is the environment's name.
REMOVED_DEFAULTS: Mapping[str, Any] = {
    "environment.toy_llm.top_p": 1.0,
}
# The keys of a file that a sweep names, once it is resolved.
FILE_KEYS = {"path", "sha256"}
# What is behind the names in a sweep, by these names: the hash of code or of files, and of a plugin
# its package and version.
Content = Mapping[str, Mapping[str, str]]


def canonical_json(obj: Any) -> str:
    """Return `obj` as JSON with sorted keys and no spaces.

    Raises `ValueError` for NaN and infinities, `TypeError` for what JSON has no word for.
    """
    text = _ENCODER.encode(obj)
    # -0.0 means what 0.0 means; few texts have it, and every cell has one.
    return _ENCODER.encode(_positive_zero(obj)) if "-0.0" in text else text


def content_hash(obj: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of the canonical JSON of `obj`."""
    return hashlib.sha256(canonical_json(obj).encode()).hexdigest()[:16]


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
        if not (value and key == PRETRAINED_FOLDER and isinstance(value, str))
    }


def with_removed_defaults(
    block: Mapping[str, Any], name: str, removed: Mapping[str, Any] = REMOVED_DEFAULTS
) -> dict[str, Any]:
    """Return a block of settings with the removed settings of its `name` at their old defaults.

    `name` is the first part of their paths: `training`, or `environment.toy_llm`.
    """
    restored: dict[str, Any] = dict(block)
    for path, value in removed.items():
        if not path.startswith(f"{name}."):
            continue
        *above, key = path.removeprefix(f"{name}.").split(".")
        inner = restored
        for step in above:
            inner[step] = dict(inner.get(step, {}))
            inner = inner[step]
        inner.setdefault(key, value)
    return restored


def environment_key(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment's settings as ids and seeds hash them."""
    return with_removed_defaults(environment, f"environment.{environment['name']}")


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _positive_zero(obj: Any) -> Any:
    """Return `obj` without -0.0, which means what 0.0 means but is spelt differently in JSON."""
    if isinstance(obj, float):
        return obj + 0.0
    if isinstance(obj, Mapping):
        return {key: _positive_zero(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_positive_zero(value) for value in obj]
    return obj
