"""How modules of rows do without torch until one of their functions is called.

They import torch and the modules that compute from here. Imports no torch itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    import torch as torch

    from maxk_lab.estimators import checks as checks
    from maxk_lab.estimators.methods import ratio_sums as ratio_sums
    from maxk_lab.estimators.ranks import gaps as gaps
    from maxk_lab.estimators.ranks import rules as rules
else:

    class _Deferred:
        """A module that is imported when something of it is first asked for."""

        def __init__(self, path: str) -> None:
            self._path = path

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._path), name)

    torch = _Deferred("torch")
    checks = _Deferred("maxk_lab.estimators.checks")
    ratio_sums = _Deferred("maxk_lab.estimators.methods.ratio_sums")
    gaps = _Deferred("maxk_lab.estimators.ranks.gaps")
    rules = _Deferred("maxk_lab.estimators.ranks.rules")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def cached(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compute once per arguments, as tensors that outlive the caller's mode: never write to them.

    A tensor made in inference mode could not take part in autograd later.
    """

    @lru_cache(maxsize=64)
    @wraps(function)
    def compute(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    # mypy sees only hashables in an lru_cache's signature; the arguments here are numbers.
    return cast("Callable[Arguments, Result]", compute)
