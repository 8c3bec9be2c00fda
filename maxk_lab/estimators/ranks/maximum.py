"""The rules of the expected maximum that all others are sums of, in O(n), computed once each."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators.ranks.combinatorics import cached, rank_weights
from maxk_lab.estimators.ranks.gaps import Rule


def _gaps(n: int, k: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The gaps j = 1..n-1, C(j-1, K-1) / C(n, K) and C(j, K-1) / C(n, K).

    The first ratio moves s, the second SubLOO.
    """
    weights = rank_weights(n, k, device)
    return torch.arange(1, n, dtype=torch.float64, device=device), weights[:-1], weights[1:]


@cached
def value_shortfall(n: int, k: int, device: torch.device) -> Tensor:
    """C(j, K) / C(n, K) per gap j, float64 `[n-1]`: the chance that all K samples lie below."""
    gap, moves, _ = _gaps(n, k, device)
    return moves * gap / k


@cached
def score(n: int, k: int, device: torch.device) -> Rule:
    """s_i, the score weights."""
    _, moves, _ = _gaps(n, k, device)
    return Rule(moves, -moves, k / n)


@cached
def left_out_value(n: int, k: int, device: torch.device) -> Rule:
    """The Max@K value of the other n-1 samples, n / (n-K) * (value - s_i) by identity I3 (K < n).

    Its shift is C(j-1, K) / C(n-1, K): the subtraction is done on the coefficients, where it is
    exact.
    """
    gap, moves, _ = _gaps(n, k, device)
    ratio = n / (n - k)
    return Rule(-ratio * moves, -ratio / k * (gap - k).clamp(min=0) * moves, 1.0)


@cached
def group_mean(n: int, k: int, device: torch.device) -> Rule:
    """s_i minus the mean of s over the group."""
    gap, moves, _ = _gaps(n, k, device)
    return Rule(moves, -moves * (n - gap) / n, 0.0)


@cached
def subloo(n: int, k: int, device: torch.device) -> Rule:
    """s_i - (K/n) * left-out value at K-1: a cumulative sum that starts at 0 (K >= 2)."""
    _, _, moves = _gaps(n, k, device)
    return Rule(moves, torch.zeros_like(moves), 0.0)
