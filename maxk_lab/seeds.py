"""Random seeds by axis: a seed is a hash of only the things its randomness may depend on."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from typing import Any


def derive_seed(*axes: object) -> int:
    """Return a seed in [0, 2**63) that depends on nothing but the values of `axes`.

    They are plain values as JSON knows them; their order counts.
    """
    text = json.dumps(axes, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_generators(seed: int) -> None:
    """Seed the generators that belong to the process: those of Python, numpy and torch."""
    random.seed(seed)
    # A process that has not imported them does not import them for this.
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
