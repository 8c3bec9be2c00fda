"""Enumeration of groups of n classes: the multisets with their orders, and the ordered groups."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain, combinations_with_replacement

import numpy as np
import torch
from torch import Tensor


@lru_cache(maxsize=4)
def multisets(kinds: int, n: int) -> tuple[Tensor, Tensor]:
    """Return the multisets of n out of `kinds` classes and how many orders each has.

    The multisets are [S, n], each ascending; the logarithms of their numbers of orders are [S].
    """
    count = math.comb(kinds + n - 1, n)
    flat = chain.from_iterable(combinations_with_replacement(range(kinds), n))
    members = torch.from_numpy(np.fromiter(flat, dtype=np.int64, count=count * n).reshape(count, n))
    log_count = torch.full((count,), math.lgamma(n + 1), dtype=torch.float64)
    run = torch.ones(
        count, dtype=torch.float64
    )  # Π of the positions within runs of equals is Π m_c!
    for i in range(1, n):
        run = torch.where(members[:, i] == members[:, i - 1], run + 1, torch.ones_like(run))
        log_count -= run.log()
    return members, log_count


@lru_cache(maxsize=4)
def ordered_groups(kinds: int, n: int) -> tuple[Tensor, Tensor]:
    """Return the ordered groups of n out of `kinds` classes, [S, n], and zeros [S].

    The zeros are the logarithms of how many orders each stands for.
    """
    members = torch.cartesian_prod(*[torch.arange(kinds)] * n).view(-1, n)
    return members, torch.zeros(len(members), dtype=torch.float64)
