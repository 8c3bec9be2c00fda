"""RL4CO imported without its noise, and without its weight on the collector."""

from __future__ import annotations

import gc
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

# RL4CO imports matplotlib, which complains on stderr when it cannot write its cache.
os.environ.setdefault("MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), "maxk-lab-matplotlib"))

import_module("rl4co.envs")
import_module("rl4co.models.zoo.am.policy")
# Four thousand modules: a tenth of a training step would go into looking through them for garbage.
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
