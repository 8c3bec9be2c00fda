"""Ratios of binomial coefficients, by recurrence in float64: finite for every n and K."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators.engine import cached

# Chances that `hypergeometric_means` holds at a time.
_CHANCES = 2**18


def _normal(values: Tensor) -> Tensor:
    """Values >= 0 without those below the smallest normal number, which have lost digits."""
    return torch.where(values < torch.finfo(torch.float64).tiny, 0.0, values)


@cached
def rank_weights(n: int, k: int) -> Tensor:
    """a_i = C(i-1, K-1) / C(n, K) for ranks i = 1..n, float64 `[n]`; their sum is 1.

    a_n = K/n and a_i = a_{i+1} (i+1-K) / i, so every product runs downwards from the largest term.
    Source: PKPO, arXiv 2505.15201, Theorem 1.
    """
    rank = torch.arange(n - 1, 0, -1, dtype=torch.float64)
    factors = torch.cat([rank.new_full((1,), k / n), ((rank + 1 - k) / rank).clamp(min=0)])
    return _normal(factors.cumprod(0).flip(0))


def hypergeometric_means(table: Tensor, population: int, marked: range) -> Tensor:
    """E[table[X]] for every number of `marked`, X of the drawn being marked: float64 `[m]`.

    `table` `[draws + 1]` holds a value for every possible X = 0..draws; `draws` of the `population`
    are drawn without replacement. The chances come from the ratio of neighbours, as products
    downwards from the likeliest X, and their sum: positive terms all along, so that each has a
    small relative error; what underflows counts as 0.
    """
    draws = len(table) - 1
    size = max(1, _CHANCES // len(table))
    means = [torch.empty(0, dtype=torch.float64)]
    for start in range(0, len(marked), size):
        part = marked[start : start + size]
        # No X outside has a chance, whatever the number of this part.
        low, high = max(0, draws - population + part[0]), min(draws, part[-1])
        good = torch.arange(part.start, part.stop, dtype=torch.float64)
        means.append(_chances(draws, population, good, low, high) @ table[low : high + 1])
    return torch.cat(means)


def _chances(draws: int, population: int, marked: Tensor, low: int, high: int) -> Tensor:
    """P(X = x) for x = low..high (columns) and each number of `marked` (rows), float64.

    No other x has a chance.
    """
    good = marked[:, None]
    x = torch.arange(low, high, dtype=torch.float64)
    # P(x+1) / P(x) = up / down; a factor is 0, not negative, where x or x + 1 is out of reach.
    up = ((good - x) * (draws - x)).clamp(min=0)
    down = ((x + 1) * (population - good - draws + x + 1)).clamp(min=0)
    rising = up >= down
    from_mode = torch.where(rising, 1.0, up / torch.where(rising, 1.0, down)).cumprod(1)
    to_mode = torch.where(rising & (up > 0), down / torch.where(up > 0, up, 1.0), 1.0)
    one = torch.ones_like(good)
    left = torch.cat([to_mode.flip(1).cumprod(1).flip(1), one], dim=1)
    chances = _normal(left * torch.cat([one, from_mode], dim=1))
    return chances / chances.sum(1, keepdim=True)
