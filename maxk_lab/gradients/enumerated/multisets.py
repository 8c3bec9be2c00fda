"""All groups of n classes there are: the multisets, with how many orders each has, and the ordered groups."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain, combinations_with_replacement

import numpy as np
import torch
from torch import Tensor

# Groups of more than this are listed by counts.
LONG = 128


@lru_cache(maxsize=4)
def multisets(kinds: int, n: int) -> tuple[Tensor, Tensor]:
    """Every multiset of n out of `kinds` classes, [S, n] ascending, and the logarithm of how many orders each has, [S]."""
    count = math.comb(kinds + n - 1, n)
    if n > LONG:
        return _long_multisets(kinds, n)
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


def _long_multisets(kinds: int, n: int) -> tuple[Tensor, Tensor]:
    """As `multisets`, by the number of members of each class: faster where these are many."""
    counts = _counts(kinds, n)
    members = (
        torch.arange(kinds).repeat(len(counts)).repeat_interleave(counts.flatten()).view(-1, n)
    )
    return members, math.lgamma(n + 1) - (counts + 1.0).double().lgamma().sum(1)


def _counts(kinds: int, n: int) -> Tensor:
    """How often each class is in each multiset of n, [S, kinds], in the order of ascending members."""
    counts, left = torch.zeros(1, 0, dtype=torch.int64), torch.tensor([n])
    for _ in range(kinds - 1):
        ways = left + 1
        parent = torch.arange(len(left)).repeat_interleave(ways)
        first = (ways.cumsum(0) - ways).repeat_interleave(ways)
        taken = left[parent] - (
            torch.arange(len(parent)) - first
        )  # all that is left first, none last
        counts, left = torch.cat([counts[parent], taken.unsqueeze(1)], 1), left[parent] - taken
    return torch.cat([counts, left.unsqueeze(1)], 1)


@lru_cache(maxsize=4)
def ordered_groups(kinds: int, n: int) -> tuple[Tensor, Tensor]:
    """Every ordered group of n out of `kinds` classes, [S, n], and the logarithm of how many orders each stands for: 0, [S]."""
    members = torch.cartesian_prod(*[torch.arange(kinds)] * n).view(-1, n)
    return members, torch.zeros(len(members), dtype=torch.float64)
