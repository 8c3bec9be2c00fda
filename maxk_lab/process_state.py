"""The state of the process that a user's function may change, and that others rely on."""

from __future__ import annotations

import os
import random
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from operator import attrgetter
from typing import Any

_LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]
# How a setting is read, and how it is written.
_Setting = tuple[Callable[[], Any], Callable[[Any], Any]]
# Attributes of torch that change the numbers it computes. Older ones lack some.
_FLAGS = (
    "backends.fp32_precision",
    "backends.mkldnn.fp32_precision",
    "backends.mkldnn.matmul.fp32_precision",
    "backends.mkldnn.conv.fp32_precision",
    "backends.mkldnn.rnn.fp32_precision",
    "backends.cuda.matmul.fp32_precision",
    "backends.cudnn.conv.fp32_precision",
    "backends.cudnn.rnn.fp32_precision",
    "backends.mkldnn.enabled",
    "backends.mkldnn.deterministic",
    "backends.cudnn.enabled",
    "backends.cudnn.benchmark",
    "backends.cudnn.deterministic",
    "backends.opt_einsum.enabled",
    "backends.opt_einsum.strategy",
    "backends.quantized.engine",
    "utils.deterministic.fill_uninitialized_memory",
)
# The functions that tell such a setting, and those that set it.
_FUNCTIONS = (
    ("get_default_dtype", "set_default_dtype"),
    ("is_grad_enabled", "set_grad_enabled"),
    ("get_num_threads", "set_num_threads"),
    ("get_float32_matmul_precision", "set_float32_matmul_precision"),
    ("get_deterministic_debug_mode", "set_deterministic_debug_mode"),
    ("is_autocast_cache_enabled", "set_autocast_cache_enabled"),
    ("backends.mha.get_fastpath_enabled", "backends.mha.set_fastpath_enabled"),
    ("backends.cuda.flash_sdp_enabled", "backends.cuda.enable_flash_sdp"),
    ("backends.cuda.mem_efficient_sdp_enabled", "backends.cuda.enable_mem_efficient_sdp"),
    ("backends.cuda.math_sdp_enabled", "backends.cuda.enable_math_sdp"),
)
_OF_AUTOCAST = (
    ("is_autocast_enabled", "set_autocast_enabled"),
    ("get_autocast_dtype", "set_autocast_dtype"),
)


@contextmanager
def unchanged() -> Iterator[None]:
    """Give back after a block what it changed of the process: the numbers of others need it.

    The working folder, the environment, the standard streams, the limits of recursion and of the
    system, the mask of new files, and the settings of numpy and torch.
    """
    back = list(_ways_back())
    try:
        yield
    finally:
        for restore in back:
            restore()


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
    limits, mask = [resource.getrlimit(which)[0] for which in _LIMITS], os.umask(0o077)
    os.umask(mask)

    def of_system() -> None:
        os.umask(mask)
        for which, soft in zip(_LIMITS, limits, strict=True):
            now, hard = resource.getrlimit(which)
            if now != soft:
                with suppress(ValueError, OSError):  # the hard limit, too, has been lowered
                    resource.setrlimit(which, (soft, hard))

    yield of_system
    # A process that has not imported a library does not import it for this.
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        errors = numpy.geterr()
        yield lambda: numpy.seterr(**errors)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        yield _way_back(torch)


def _way_back(torch: Any) -> Callable[[], None]:
    """Return a function that gives every setting the value that it has now."""
    before = [(read, write, read()) for read, write in _settings(torch)]

    def back() -> None:
        # Again after a change, since a general setting changes those that it consists of.
        written = [_written(*setting) for setting in before]
        if any(written):
            for setting in before:
                _written(*setting)

    return back


def _written(read: Callable[[], Any], write: Callable[[Any], Any], value: Any) -> bool:
    """Write a setting that has another value, and return whether it had."""
    if changed := bool(read() != value):
        write(value)
    return changed


@cache
def _settings(torch: Any) -> tuple[_Setting, ...]:
    return tuple(_found(torch))


def _found(torch: Any) -> Iterator[_Setting]:
    """Yield how each setting is read and written.

    The flags come first: where they contradict a general setting, that cannot be read.
    """
    for path in _FLAGS:
        home, _, name = path.rpartition(".")
        with suppress(AttributeError):
            owner = attrgetter(home)(torch)
            getattr(owner, name)
            yield partial(getattr, owner, name), partial(setattr, owner, name)
    for read, write in _FUNCTIONS:
        with suppress(AttributeError):
            yield attrgetter(read, write)(torch)
    for kind in ("cpu", "cuda") if hasattr(torch, "get_autocast_dtype") else ():
        for read, write in _OF_AUTOCAST:
            yield partial(getattr(torch, read), kind), partial(getattr(torch, write), kind)
    yield (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda value: torch.set_anomaly_enabled(*value),
    )
    yield lambda: torch.tensor(0.0).device, torch.set_default_device
    # No function tells this one. What is computed does.
    yield lambda: sys.float_info.min / 2 == 0, torch.set_flush_denormal


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None
