"""How modules of rows do without torch until one of their functions is called.

Imports no torch itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Deferred:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._path), name)


def deferred(*paths: str) -> Any:
    """The modules of these names, each imported at its first use."""
    return tuple(map(_Deferred, paths))


def cached(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compute once per arguments, as tensors that outlive the caller's mode: never write to them.

    A tensor made in inference mode could not take part in autograd later.
    """

    @lru_cache(maxsize=64)
    @wraps(function)
    def compute(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        import torch

        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    # mypy sees only hashables in an lru_cache's signature; the arguments here are numbers.
    return cast("Callable[Arguments, Result]", compute)
