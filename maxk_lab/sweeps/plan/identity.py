"""Identity of cells: a versioned hash of their resolved meaning, so equal work has one name anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Raised whenever the same cell would be measured differently; records of another version are stale.
IDENTITY_VERSION = 1


def canonical_json(obj: Any) -> str:
    """`obj` as JSON, sorted keys, no spaces. ValueError for NaN and infinities, TypeError for other types."""
    return json.dumps(_positive_zero(obj), sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_hash(obj: Any) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON of `obj`."""
    return hashlib.sha256(canonical_json(obj).encode()).hexdigest()[:16]


def _positive_zero(obj: Any) -> Any:
    """-0.0 means what 0.0 means, but JSON spells them differently."""
    if isinstance(obj, float):
        return obj + 0.0
    if isinstance(obj, Mapping):
        return {key: _positive_zero(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_positive_zero(value) for value in obj]
    return obj
