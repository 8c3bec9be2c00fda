"""Random seeds by axis: a seed is a hash of the values that its randomness depends on."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def derive_seed(*axes: object) -> int:
    """Return a seed in [0, 2**63) that depends only on the values of `axes`, in order.

    They are plain JSON values.
    """
    text = json.dumps(axes, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_generators(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch."""
    random.seed(seed)
    # A module that is not imported needs no seed.
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if "torch" in sys.modules:
        _seed_torch(seed)


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Run a block with torch's global generator seeded by `seed`; restore its state afterwards.

    Libraries reseed it without notice. The states of CUDA devices are restored, too, if CUDA is in
    use; reading them would initialise it. A block that initialises CUDA itself draws there from
    CUDA's own seed.
    """
    import torch

    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if in_use else []):
        _seed_torch(seed)
        yield


def _seed_torch(seed: int) -> None:
    torch: Any = sys.modules["torch"]
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # otherwise CUDA would use the seed when it starts later
        torch.cuda.manual_seed_all(seed)
