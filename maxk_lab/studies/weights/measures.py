"""Numbers of a cell of the weights study, each from the weights [groups, n] of all its groups."""

from __future__ import annotations

from torch import Tensor


def zero_share(weights: Tensor) -> float:
    """The share of the weights that are zero."""
    return float((weights == 0).double().mean())


def weight_sum(weights: Tensor) -> float:
    """The sum of the weights of a group, averaged over groups."""
    return float(weights.sum(-1).mean())


def weight_min(weights: Tensor) -> float:
    """The least weight of all groups."""
    return float(weights.min())
