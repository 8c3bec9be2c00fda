"""Isolation of the global random state, which libraries reseed behind the user's back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Run a block under torch's global generator seeded with `seed`; give the old state back after.

    The states of CUDA devices are given back, too, where CUDA is in use; to look at them would
    initialise it. A block that wakes CUDA itself draws there from a seed of CUDA's own.
    """
    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if in_use else []
    with torch.random.fork_rng(devices=devices):
        if in_use:
            torch.manual_seed(seed)
        else:  # which would keep the seed, with a traceback, for devices that are never woken
            torch.default_generator.manual_seed(seed)
        yield
