"""Ratios of binomial coefficients, by recurrence in float64.

They are finite for every n and K, and computed once each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.validation import check_k

_BLOCK = 256
# Chances that `hypergeometric_means` holds at a time.
_CHANCES = 2**18
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

    # mypy sees only hashables in an lru_cache's signature; the arguments here are numbers and
    # devices.
    return cast("Callable[Arguments, Result]", compute)


@cached
def rank_weights(n: int, k: int, device: torch.device) -> Tensor:
    """a_i = C(i-1, K-1) / C(n, K) for ranks i = 1..n, float64 `[n]`.

    a_n = K/n and a_i = a_{i+1} (i+1-K) / i, so every product runs downwards from the largest term;
    what is smaller than the smallest normal number becomes 0.
    """
    rank = torch.arange(n - 1, 0, -1, dtype=torch.float64, device=device)
    factors = torch.cat([rank.new_full((1,), k / n), ((rank + 1 - k) / rank).clamp_(min=0)])
    weights = factors.cumprod(0).flip(0)
    return torch.where(weights < torch.finfo(torch.float64).tiny, 0.0, weights)


def hypergeometric_means(table: Tensor, population: int, marked: range) -> Tensor:
    """E[table[X]] for every number of `marked`, X of the drawn being marked: float64 `[m]`.

    The numbers rise one by one.

    `table` `[draws + 1]` holds a value for every possible X = 0..draws; `draws` of the `population`
    are drawn without replacement. The chances come from the ratio of neighbours, as products
    downwards from the likeliest X, and their sum: positive terms all along, so that each has a
    small relative error; what underflows counts as 0.
    """
    draws = len(table) - 1
    size = max(1, _CHANCES // len(table))
    means = torch.empty(len(marked), dtype=torch.float64, device=table.device)
    for start in range(0, len(marked), size):
        part = marked[start : start + size]
        # No X outside has a chance, whatever the number of this part.
        low, high = max(0, draws - population + part[0]), min(draws, part[-1])
        good = torch.arange(part.start, part.stop, dtype=torch.float64, device=table.device)
        chances = _chances(draws, population, good, low, high)
        means[start : start + size] = chances @ table[low : high + 1]
    return means


def _chances(draws: int, population: int, marked: Tensor, low: int, high: int) -> Tensor:
    """P(X = x) for x = low..high (columns) and each number of `marked` (rows), float64.

    No other x has a chance.
    """
    good = marked[:, None]
    x = torch.arange(low, high, dtype=torch.float64, device=marked.device)
    # P(x+1) / P(x) = up / down; a factor is 0, not negative, where x or x + 1 is out of reach.
    up = ((good - x) * (draws - x)).clamp_(min=0)
    down = ((x + 1) * (population - good - draws + x + 1)).clamp_(min=0)
    rising = up >= down
    from_mode = torch.where(rising, 1.0, up / torch.where(rising, 1.0, down)).cumprod_(1)
    to_mode = torch.where(rising & (up > 0), down / torch.where(up > 0, up, 1.0), 1.0)
    one = torch.ones_like(good)
    left = torch.cat([to_mode.flip(1).cumprod_(1).flip(1), one], dim=1)
    chances = left.mul_(torch.cat([one, from_mode], dim=1))
    chances = torch.where(chances < torch.finfo(torch.float64).tiny, 0.0, chances)
    return chances.div_(chances.sum(1, keepdim=True))


def maxk_reward_weights(n: int, k: int, *, device: torch.device | str = "cpu") -> Tensor:
    """The weight per rank of the Max@K value: C(i-1, K-1) / C(n, K) for ranks i = 1..n.

    Rewards ascend.

    Returns float64 `[n]`, zero below rank K, with sum 1. Raises `ValueError` unless 1 <= k <= n.
    Source: PKPO, arXiv 2505.15201, Theorem 1.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise LabError(f"n must be an integer with n >= 1, got {n!r}")
    return rank_weights(n, check_k(k, n), torch.device(device)).clone()


def shortfall_blocks(n: int, device: torch.device) -> Iterator[Tensor]:
    """C(j, K) / C(n, K) for gaps j = 1..n-1 (rows) and K = 1..n (columns), float64.

    They come in blocks of columns.

    From K - 1 to K the ratio is multiplied by (j-K+1) / (n-K+1).
    """
    gap = torch.arange(1, n, dtype=torch.float64, device=device)[:, None]
    last = torch.ones_like(gap)
    for start in range(1, n + 1, _BLOCK):
        k = torch.arange(start, min(start + _BLOCK, n + 1), dtype=torch.float64, device=device)
        block = last * ((gap - k + 1).clamp_(min=0) / (n - k + 1)).cumprod(1)
        last = block[:, -1:]
        yield block
