"""Rewards from several functions: loaded by name or path, called, checked and weighted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.functions import load_function
from maxk_lab.environments.language.tasks import REWARDS
from maxk_lab.errors import LabError, shown
from maxk_lab.leaving import RAISED


@dataclass(frozen=True)
class RewardFunction:
    """A reward function under its name in the sweep: a callable on texts, or a module on tokens."""

    name: str
    call: Callable[..., Any]


def load_rewards(names: Sequence[str]) -> tuple[RewardFunction, ...]:
    """Return the reward functions of these catalogue names or dotted paths.

    Raises `LabError` for a missing function.
    """
    takes = "(prompts, completions, **columns) or a torch module"
    return tuple(RewardFunction(name, load_function(name, REWARDS, takes)) for name in names)


def score(
    functions: Sequence[RewardFunction],
    weights: Sequence[float],
    texts: Mapping[str, Sequence[Any]],
    tokens: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return R = Σ_f w_f r_f of N completions: rewards [N] and parts r [N, F], both float64.

    A function is called like in TRL: by name, with the lists of `texts`: prompts, completions and
    any columns. It returns a number or None for every completion. A torch module is called as
    `module(tokens, mask)`, tokens [N, L] of prompt and completion, mask [N, L] False after the end.
    None makes the part and the reward NaN: unscorable. Raises `LabError` with function and sample
    for a function that raises, returns NaN, ±inf or no number, or not one value per completion.
    """
    by_function = []
    for function in functions:
        if isinstance(function.call, nn.Module):
            assert tokens is not None
            assert mask is not None
            by_function.append(_tokens_scored(function, tokens, mask))
        else:
            by_function.append(_texts_scored(function, texts))
    parts = torch.stack(by_function, 1)
    return parts @ torch.tensor(list(weights), dtype=torch.float64, device=parts.device), parts


def _texts_scored(function: RewardFunction, texts: Mapping[str, Sequence[Any]]) -> Tensor:
    name, count = f"reward function {function.name!r}", len(texts["prompts"])

    def call(samples: slice) -> Any:
        """Return the function's values for lists that it may change.

        Coroutines and generators run here, where they may raise.
        """
        values = function.call(**{key: list(column[samples]) for key, column in texts.items()})
        values = asyncio.run(values) if isinstance(values, Coroutine) else values
        return list(values) if isinstance(values, Iterator) else values

    def sample(index: int) -> str:
        prompt, completion = texts["prompts"][index], texts["completions"][index]
        return f"for sample {index}, prompt {prompt!r}, completion {completion!r}"

    try:
        values = call(slice(None))
    except RAISED as error:
        where = f"for {count} samples together, for none of them alone"
        for index in range(count):  # find the sample for which it raises
            try:
                call(slice(index, index + 1))
            except RAISED:
                where = sample(index)
                break
        by_name = f"; it is called by name, with {', '.join(texts)}"
        called_so = by_name if isinstance(error, TypeError) else ""
        raise LabError(
            f"{name} raised {type(error).__name__} {where}: {error}{called_so}"
        ) from error
    try:
        values = list(values.tolist() if hasattr(values, "tolist") else values)
    except TypeError:
        raise LabError(
            f"{name} must return a list with a number or None per completion, got {shown(values)}"
        ) from None
    if len(values) != count:
        raise LabError(f"{name} returned {len(values)} values for {count} completions")
    numbers = []
    for index, value in enumerate(values):
        try:
            # A scalar of NumPy or torch.
            value = value.item() if hasattr(value, "item") else value
            number = math.nan if value is None else float(value)
            valid = value is None or (isinstance(value, Real) and math.isfinite(number))
        # No number, or one beyond every float.
        except (TypeError, ValueError, RuntimeError, OverflowError):
            valid = False
        if not valid:
            raise LabError(
                f"{name} returned {shown(value)} {sample(index)}; a reward is a finite number, or "
                "None without a reward"
            )
        numbers.append(number)
    return torch.tensor(numbers, dtype=torch.float64)


@torch.no_grad()
def _tokens_scored(function: RewardFunction, tokens: Tensor, mask: Tensor) -> Tensor:
    name, count = f"reward model {function.name!r}", len(tokens)
    try:
        # A copy, which the module may change or keep.
        values = function.call(tokens.clone(), mask.clone())
    except RAISED as error:
        raise LabError(f"{name} raised {type(error).__name__}: {error}") from error
    if not isinstance(values, Tensor) or values.shape != (count,):
        got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise LabError(f"{name} must return a tensor of shape ({count},), got {got}")
    if not bool(values.isfinite().all()):
        index = int((~values.isfinite()).nonzero()[0])
        raise LabError(
            f"{name} returned {values[index].item()} for sample {index}, tokens "
            f"{tokens[index][mask[index]].tolist()}"
        )
    return values.to("cpu", torch.float64, copy=True)
