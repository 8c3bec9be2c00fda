"""Measures of one group of n: on how few samples its weight lies, and whether it teaches anything."""

from __future__ import annotations

from torch import Tensor


def concentrations(weights: Tensor) -> Tensor:
    """Σw²/(Σ|w|)², between 1/n (all |w| equal) and 1 (a single sample): [..., n] → [...].

    NaN exactly where all weights are zero: the group is dead.
    """
    size = weights.abs()
    share = size / size.amax(-1, keepdim=True)  # squares neither overflow nor vanish
    return share.square().sum(-1) / share.sum(-1).square()
