"""The identity of cells: a versioned hash of their resolved meaning, one name for equal work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from maxk_lab.policies.catalogue import PRETRAINED_FOLDER

# Increase it whenever equal cells would be measured differently; old records are then stale.
IDENTITY_VERSION = 1
# Removed settings by path, with the value that older ids and seeds hash. The owner of a setting of
# `environment` or `policy` is the environment's name.
REMOVED_DEFAULTS: Mapping[str, Any] = {
    "environment.toy_llm.top_p": 1.0,
    "training.kl.reference": "frozen",
    "training.kl.reference_every": 50,
    "training.loss.dual_clip": None,
    "training.min_gap_scale": None,
    "training.reward_order": ["clip", "kl"],
    "training.truncated": "keep",
}
# The keys of a file that a sweep names, once it is resolved.
FILE_KEYS = {"path", "sha256"}


def canonical_json(obj: Any) -> str:
    """Return `obj` as JSON with sorted keys and no spaces.

    Raises `ValueError` for NaN and infinities, `TypeError` for objects that are not JSON.
    """
    text = _ENCODER.encode(obj)
    # Skip texts without -0.0, which means 0.0.
    if "-0.0" in text:
        text = _ENCODER.encode(json.loads(text, parse_float=lambda digits: float(digits) + 0.0))
    return text


def content_hash(obj: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of the canonical JSON of `obj`."""
    return hashlib.sha256(canonical_json(obj).encode()).hexdigest()[:16]


def without_paths(obj: Any) -> Any:
    """Return `obj` with only the hash of every file in it, without the folder of a model."""
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
    """Return a block of settings with its removed settings at their old defaults.

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


def policy_key(policy: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy's settings as ids and seeds hash them, without the paths of files."""
    return with_removed_defaults(without_paths(policy), f"policy.{environment['name']}")


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
