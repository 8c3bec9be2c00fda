"""Random seeds by axis: a seed is a hash of only the things its randomness may depend on."""

from __future__ import annotations

import hashlib
import json


def derive_seed(*axes: object) -> int:
    """A seed in [0, 2**63) that depends on the values of `axes` (JSON-like, in this order) and on nothing else."""
    text = json.dumps(axes, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
