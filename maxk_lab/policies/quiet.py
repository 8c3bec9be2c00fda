"""Import RL4CO without its warnings, and without cost for the garbage collector."""

from __future__ import annotations

import gc
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

# RL4CO imports matplotlib, which warns on stderr if it cannot write its cache.
os.environ.setdefault("MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), "maxk-lab-matplotlib"))

import_module("rl4co.envs")
import_module("rl4co.models.zoo.am.policy")
# RL4CO has four thousand modules: a garbage collection of them takes a tenth of a training step.
gc.freeze()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Run a block in which RL4CO logs errors only."""
    logger = logging.getLogger("rl4co")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
