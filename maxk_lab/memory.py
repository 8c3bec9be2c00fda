"""The collector of cyclic garbage, told which objects stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept() -> Iterator[None]:
    """Make many objects without cycles that stay, such as the records of a run.

    Python would look through all of them whenever their number has grown by a quarter, and
    again for everything that is made afterwards; they are still freed with their last reference.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()  # garbage that is frozen would stay for ever: in a notebook, say
        gc.freeze()
        if enabled:
            gc.enable()
