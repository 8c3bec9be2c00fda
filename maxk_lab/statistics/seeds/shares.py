"""Clopper and Pearson's (1934) interval of a share, from how many ones were counted."""

from __future__ import annotations

import scipy


def counted(ones: float, count: int, level: float) -> tuple[float, float]:
    """Both ends for `ones` of `count`, which need not be whole.

    Values in [0, 1] that sum to `ones` have at most the variance of zeros and ones: of them it
    covers at least as often.
    """
    tail = (1 - level) / 2
    low = 0.0 if ones <= 0 else float(scipy.special.betaincinv(ones, count - ones + 1, tail))
    high = (
        1.0 if ones >= count else float(scipy.special.betaincinv(ones + 1, count - ones, 1 - tail))
    )
    return low, high
