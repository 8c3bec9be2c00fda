"""Numbers as callers have them: tensors, NumPy arrays, or lists, which may lack some rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from maxk_lab.errors import LabError, shown


class Array(Protocol):
    """An array of NumPy, or what turns into one: a column of pandas, an array of JAX."""

    def __array__(self) -> Any:
        """Return the array of NumPy."""


Numbers = Tensor | Array | Sequence[Any]


def as_tensor(given: Numbers, name: str) -> Tensor:
    """Return numbers as a tensor: tensors as they are, arrays in their own type, lists as float64.

    Raises `LabError` for anything else.
    """
    if isinstance(given, Tensor):
        return given
    try:
        if hasattr(given, "__array__"):
            return torch.from_numpy(given.__array__().copy())
        return torch.tensor(given, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise LabError(
            f"{name} must be numbers in a tensor, an array, or lists of equal lengths, "
            f"got {shown(given)}"
        ) from None


def as_rewards(given: Numbers) -> tuple[Tensor, Tensor | None]:
    """Return rewards, and which are there; None where no list has a None in place of a number."""
    if hasattr(given, "__array__") and not isinstance(given, Tensor):
        array = given.__array__()
        given = array.tolist() if array.dtype.hasobject else given
    if not isinstance(given, list | tuple) or not _any_missing(given):
        return as_tensor(given, "rewards"), None
    filled = _each(given, lambda one: 0.0 if one is None else one)
    there = _each(given, lambda one: one is not None)
    return as_tensor(filled, "rewards"), torch.tensor(there)


def _any_missing(given: Any) -> bool:
    if isinstance(given, list | tuple):
        return any(map(_any_missing, given))
    return given is None


def _each(given: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(given, list | tuple):
        return [_each(one, change) for one in given]
    return change(given)
