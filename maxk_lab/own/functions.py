"""Advantage functions in the signatures of common trainers, called on one group of rewards."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.estimators.rows import MethodRow
from maxk_lab.installed import is_function_path, open_project_folders

# A function of rewards [n] that gives a weight to each, [n].
Weigh = Callable[[Tensor], Tensor]


def _plain(function: Callable[..., Any], k: int) -> Weigh:
    """Call `f(rewards)`, or `f(rewards, k)` where it takes a K."""
    options, places = _takes(function), (k,) if _second(function) else ()
    named = {name: k for name in ("k", "K") if name in options and not places}
    return lambda rewards: _tensor(function(rewards, *places, **named))


def _flat(function: Callable[..., Any], k: int) -> Weigh:
    """Call `f(rewards [B * n], num_generations)` as TRL's trainers do, with one group."""
    named = {name: k for name in ("k", "K") if name in _takes(function)}
    return lambda rewards: _tensor(function(rewards, len(rewards), **named))


def _verl(function: Callable[..., Any], k: int) -> Weigh:
    """Call verl's `f(token_level_rewards [n, T], response_mask, index, config)`.

    Responses have one token. SkyRL and rLLM's ports take the same.
    """

    def weigh(rewards: Tensor) -> Tensor:
        numbers = {
            "token_level_rewards": rewards.unsqueeze(1),
            "response_mask": torch.ones(len(rewards), 1, dtype=torch.float64),
            "index": ["group"] * len(rewards),
            "config": {"maxk_k": k},
            "k": k,
        }
        takes = _takes(function)
        given = {name: one for name, one in numbers.items() if name in takes or "**" in takes}
        found = function(**given)
        return _tensor(found[0] if isinstance(found, tuple) else found).squeeze(1)

    return weigh


SIGNATURES: dict[str, Callable[[Callable[..., Any], int], Weigh]] = {
    "rewards": _plain,
    "flat": _flat,
    "verl": _verl,
}


def function_of(path: str) -> Callable[..., Any]:
    """The function at `module:name` or `file.py:name`, imported.

    A module is looked for in the current folder, then among what is installed. Raises `LabError`
    where there is no such function.
    """
    place, _, name = path.rpartition(":")
    if place.endswith(".py"):
        file = Path(place).resolve()
        place = file.stem
        if not file.is_file():
            raise LabError(f"there is no file {file}")
        sys.path.append(str(file.parent))
    elif not is_function_path(path):
        raise LabError(f"name a function as module:name or file.py:name, got {shown(path)}")
    open_project_folders()
    function = load(f"{place}:{name}", "the function ")
    if not (callable(function) or isinstance(function, MethodRow)):
        raise LabError(f"{path} is no function but {shown(function)}")
    called: Callable[..., Any] = function
    return called


def weigher(function: Callable[..., Any], k: int, signature: str) -> Weigh:
    """Return the function as one of rewards [n], float64 weights [n] without gradient.

    What it returns raises `LabError` where the function raises or gives no n numbers.
    """
    if signature not in SIGNATURES:
        known = ", ".join(SIGNATURES)
        raise LabError(f"signature must be one of {known}, got {shown(signature)}")
    plain = function.function if isinstance(function, MethodRow) else function
    call = SIGNATURES[signature](plain, k)

    def weigh(rewards: Tensor) -> Tensor:
        try:
            weights = call(rewards.clone())
        except Exception as error:
            raise LabError(f"raises {type(error).__name__}: {first_line(error)}") from error
        if weights.shape != rewards.shape:
            raise LabError(
                f"gives shape {list(weights.shape)} for rewards of shape {list(rewards.shape)}"
            )
        return weights

    return weigh


def _tensor(numbers: Any) -> Tensor:
    return torch.as_tensor(numbers).detach().double().cpu()


def _takes(function: Callable[..., Any]) -> set[str]:
    """The names of the parameters, and `**` where it takes any."""
    kinds = inspect.signature(function).parameters
    return {"**" if one.kind is one.VAR_KEYWORD else name for name, one in kinds.items()}


def _second(function: Callable[..., Any]) -> bool:
    """Whether the function has to be given a second argument by its place."""
    places = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return len(places) > 1 and places[1].default is inspect.Parameter.empty
