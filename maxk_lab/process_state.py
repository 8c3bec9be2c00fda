"""The state of the process that a user's function may change, and that others rely on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def unchanged() -> Iterator[None]:
    """Give back after a block what it changed of the process: the numbers of others need it.

    The working folder, the environment, the standard streams, the limit of recursion, and torch's
    default type, device, threads and whether gradients are taken.
    """
    back = list(_ways_back())
    try:
        yield
    finally:
        for restore in back:
            restore()


def _ways_back() -> Iterator[Callable[[], Any]]:
    """Yield the functions that set each part to what it is now."""
    streams, limit = (sys.stdin, sys.stdout, sys.stderr), sys.getrecursionlimit()
    environment, folder = dict(os.environ), _folder()

    def of_python() -> None:
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.setrecursionlimit(limit)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        if folder is not None and _folder() != folder:
            with suppress(OSError):  # it was deleted
                os.chdir(folder)

    yield of_python
    # A process that has not imported torch does not import it for this.
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    device, graded = torch.tensor(0.0).device, torch.is_grad_enabled()

    def of_torch() -> None:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(graded)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.tensor(0.0).device != device:
            torch.set_default_device(device)

    yield of_torch


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None
