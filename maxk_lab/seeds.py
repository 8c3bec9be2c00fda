"""Random seeds by axis: a seed is a hash of only the things its randomness may depend on."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    if "torch" in sys.modules:
        _seed_torch(seed)


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Run a block under torch's global generator seeded with `seed`; give the old state back after.

    Libraries reseed it behind the user's back. The states of CUDA devices are given back, too,
    where CUDA is in use; to look at them would initialise it. A block that wakes CUDA itself draws
    there from a seed of CUDA's own.
    """
    import torch

    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if in_use else []):
        _seed_torch(seed)
        yield


def _seed_torch(seed: int) -> None:
    torch: Any = sys.modules["torch"]
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # else it would keep the seed for devices never woken
        torch.cuda.manual_seed_all(seed)
