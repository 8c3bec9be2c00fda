"""Random seeds by axis: a seed is a hash of only the things its randomness may depend on."""

from __future__ import annotations

import hashlib
import json


def derive_seed(*axes: object) -> int:
    """Return a seed in [0, 2**63) that depends on nothing but the values of `axes`.

    They are plain values as JSON knows them; their order counts.
    """
    text = json.dumps(axes, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
