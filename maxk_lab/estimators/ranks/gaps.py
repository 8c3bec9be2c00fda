"""Sorted rewards, their gaps, and what a rule on the gaps gives to each sample.

Every quantity of this room is, in rank order and with gaps d_j = R_(j+1) - R_(j) >= 0, j = 1..n-1,

    w_(i) = sum_{j<i} steps_j d_j + sum_j shift_j d_j + top * R_(base)

with base = n for the maximum, because its score weights obey s_(i+1) - s_(i) = d_j C(i-1, K-1) /
C(n, K), j = i, and s_(n) = (K/n) R_(n). The terms of each sum have one sign, so nothing cancels:
equal rewards get equal weights, and a rule with `top` = 0 does not see a constant added to the
rewards, not even a huge one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.estimators.ranks.sorting import sort_groups
from maxk_lab.estimators.validation import check_finite


@dataclass(frozen=True)
class Sorted:
    """Rewards by rank: `order` and `values` `[..., n]`, `gaps` `[..., n-1]`.

    All but `order` are float64.
    """

    order: Tensor
    values: Tensor
    gaps: Tensor

    @property
    def top(self) -> Tensor:
        """The greatest reward, `[..., 1]`."""
        return self.values[..., -1:]


@dataclass(frozen=True)
class Rule:
    """The coefficients of one quantity: `steps` and `shift` float64 `[n-1]`.

    `top` is that of the reward at index `base`. Only rules of one base can be added.
    """

    steps: Tensor
    shift: Tensor
    top: float
    base: int = -1

    def __add__(self, other: Rule) -> Rule:
        assert self.base == other.base
        return Rule(
            self.steps + other.steps, self.shift + other.shift, self.top + other.top, self.base
        )

    def __rmul__(self, factor: float) -> Rule:
        return Rule(factor * self.steps, factor * self.shift, factor * self.top, self.base)


def sort_rewards(rewards: Tensor, *, stable_sort: bool) -> Sorted:
    """Sort rewards `[..., n]` of any real dtype.

    Raises `ValueError` where a CPU reward is not finite.
    """
    real = rewards if rewards.is_floating_point() else rewards.double()
    values, order = sort_groups(real, stable_sort=stable_sort)
    check_finite(values[..., 0], values[..., -1])
    return Sorted(order, values, values.diff(dim=-1))


def shift(rule: Rule, ranked: Sorted) -> Tensor:
    """The part of the rule that every rank gets alike, float64 `[..., 1]`."""
    return (ranked.gaps @ rule.shift).unsqueeze(-1) + rule.top * ranked.values.narrow(
        -1, rule.base, 1
    )


def weights_by_rank(rule: Rule, ranked: Sorted) -> Tensor:
    """The rule's w in rank order, float64 `[..., n]`, written over `ranked.values`."""
    for_all = shift(rule, ranked)
    # In place: next to the sort, what costs time is touching fresh memory.
    by_rank = ranked.values
    by_rank[..., 0] = 0.0
    torch.mul(ranked.gaps, rule.steps, out=by_rank[..., 1:])
    return by_rank.cumsum_(-1).add_(for_all)


def in_own_order(by_rank: Tensor, ranked: Sorted, dtype: torch.dtype) -> Tensor:
    """Weights `[..., n]` by rank, as `dtype` and in the samples' own order."""
    weights = by_rank.to(dtype)
    return torch.empty_like(weights).scatter_(-1, ranked.order, weights)


def apply_rule(rule: Rule, rewards: Tensor, *, stable_sort: bool) -> Tensor:
    """The rule's w for rewards `[..., n]`: `[..., n]`, in their own order, without gradient."""
    ranked = sort_rewards(rewards.detach(), stable_sort=stable_sort)
    return in_own_order(weights_by_rank(rule, ranked), ranked, result_dtype(rewards))


def result_dtype(rewards: Tensor) -> torch.dtype:
    """The rewards' own dtype if it is floating-point, else float64."""
    return rewards.dtype if rewards.is_floating_point() else torch.float64
