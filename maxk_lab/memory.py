"""The collector of cyclic garbage, told which objects stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Make many objects without cycles, such as the records of a run, and look for no garbage.

    Python would look through all of them whenever their number has grown by a quarter; they are
    still freed with their last reference.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def never_collected() -> Iterator[None]:
    """Make objects that stay until the process ends, such as the modules of a library.

    Nothing that is there at the end is ever looked through again: only for imports, which come
    before anything large, and for processes that are about to end.
    """
    with collector_at_rest():
        yield
    gc.collect()  # garbage would stay, too
    gc.freeze()


@contextmanager
def kept_to_the_end() -> Iterator[None]:
    """Make very many objects that stay until the process ends, such as the rows of a report.

    As above, but for garbage among them, which stays, too: to look for it takes longer than all
    else that a finished run asks for.
    """
    with collector_at_rest():
        yield
    gc.freeze()
