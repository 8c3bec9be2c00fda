"""Estimators and baselines of the user's own, named in place as `module:function`.

Nothing of theirs is imported before weights are asked for; where one runs is read in its source.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from maxk_lab.catalogue import load
from maxk_lab.errors import LabError
from maxk_lab.estimators.rows import MethodRow
from maxk_lab.installed import NoModuleError, open_project_folders, place_of

if TYPE_CHECKING:
    from torch import Tensor

RowType = TypeVar("RowType", bound=MethodRow)
# What the decorator may say of a function in literal texts.
_FACTS = ("where", "formula", "biased", "condition")


def row_in_place(kind: type[RowType], path: str) -> RowType:
    """The row of the function at `module:name`, which gives weights [..., n] of (rewards, k).

    It may be under the decorator `baseline` or `estimator`, whose literal arguments count: `where`
    says at which n and K it runs, else at any K < n. It is not called unbiased: `maxk-lab check`
    finds out whether it is.
    """
    unknown = f"not known: see maxk-lab check {path}"
    facts: dict[str, Any] = {"where": "1 <= K < n", "biased": unknown} | _declared(path)
    return kind(
        name=path,
        meaning=f"{path}, of your own",
        implementation=path,
        function=_weights_of(path),
        **facts,
    )


def row_of_function(kind: type[RowType], function: Callable[..., Any]) -> RowType:
    """The row of a function itself, for one call."""
    name = getattr(function, "__name__", "function")

    def weights(rewards: Tensor, k: int) -> Tensor:
        return _checked(name, function, rewards, k)

    return kind(name=name, meaning=name, implementation=name, function=weights, biased="not known")


def _weights_of(path: str) -> Callable[..., Tensor]:
    def weights(rewards: Tensor, k: int) -> Tensor:
        return _checked(path, _loaded(path), rewards, k)

    return weights


def _checked(name: str, function: Any, rewards: Tensor, k: int) -> Tensor:
    """The weights that a function gives. Raises `LabError` where they are no weights of these."""
    if isinstance(function, MethodRow):
        reason = function.refusal(rewards.shape[-1], k)
        if reason is not None:
            raise LabError(reason)
        found = function.function(rewards, k)
    else:
        found = function(rewards, k)
    import torch

    weights = torch.as_tensor(found, device=rewards.device)
    if weights.shape != rewards.shape:
        raise LabError(
            f"{name} gives shape {list(weights.shape)} for rewards of shape {list(rewards.shape)}"
        )
    return weights


@cache
def _loaded(path: str) -> Any:
    open_project_folders()
    return load(path, "the function ")


def _declared(path: str) -> dict[str, str]:
    """The literal texts that the function's decorator is given, read and not run."""
    module, _, name = path.partition(":")
    with suppress(NoModuleError, OSError, SyntaxError, ValueError):
        tree = ast.parse(Path(place_of(module).origin or "").read_bytes())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                given = [each for call in node.decorator_list for each in _keywords(call)]
                return {key: value for key, value in given if key in _FACTS}
    return {}


def _keywords(node: ast.expr) -> list[tuple[str, str]]:
    return [
        (str(each.arg), each.value.value)
        for each in (node.keywords if isinstance(node, ast.Call) else [])
        if isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
    ]
