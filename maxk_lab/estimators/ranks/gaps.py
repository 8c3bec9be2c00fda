"""Sorted rewards, their gaps, and what a rule on the gaps gives to each sample.

Every quantity of this room is, in rank order and with gaps d_j = R_(j+1) - R_(j) >= 0, j = 1..n-1,

    w_(i) = sum_{j<i} steps_j d_j + sum_j shift_j d_j + top * R_(base) + constant

with base = n for the maximum, because its score weights obey s_(i+1) - s_(i) = d_j C(i-1, K-1) /
C(n, K), j = i, and s_(n) = (K/n) R_(n). The terms of each sum have one sign, so nothing cancels:
equal rewards get equal weights, and a rule with `top` = 0 does not see a constant added to the
rewards, not even a huge one. Rules add up, and so do their weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from maxk_lab.estimators.engine import cached


@dataclass(frozen=True)
class Sorted:
    """Rewards by rank: `order` and `values` `[..., n]`, `gaps` `[..., n-1]`, both float64."""

    order: Tensor
    values: Tensor
    gaps: Tensor

    @property
    def top(self) -> Tensor:
        """The greatest reward, `[..., 1]`."""
        return self.values[..., -1:]


@dataclass(frozen=True, eq=False)
class Rule:
    """The coefficients of one quantity: `steps` and `shift` float64 `[n-1]`.

    `top` is that of the reward at index `base`. Only rules of one base can be added.
    """

    steps: Tensor
    shift: Tensor
    top: float
    base: int = -1
    # A tensor `[..., 1]` where it differs between groups.
    constant: float | Tensor = 0.0

    def __add__(self, other: Rule | float | Tensor) -> Rule:
        if not isinstance(other, Rule):
            return replace(self, constant=self.constant + other)
        assert self.base == other.base
        return Rule(
            self.steps + other.steps,
            self.shift + other.shift,
            self.top + other.top,
            self.base,
            self.constant + other.constant,
        )

    def __sub__(self, other: Rule | float) -> Rule:
        return self + -1.0 * other

    def __rmul__(self, factor: float) -> Rule:
        return Rule(
            factor * self.steps,
            factor * self.shift,
            factor * self.top,
            self.base,
            factor * self.constant,
        )


@cached
def _on_device(rule: Rule, device: torch.device) -> Rule:
    return replace(rule, steps=rule.steps.to(device), shift=rule.shift.to(device))


def sort_rewards(rewards: Tensor) -> Sorted:
    """Sort rewards `[..., n]` of any real dtype; equal ones stay in their order."""
    real = rewards if rewards.is_floating_point() else rewards.double()
    values, order = torch.sort(real, dim=-1, stable=True)
    values = values.double()
    return Sorted(order, values, values.diff(dim=-1))


def level(rule: Rule, ranked: Sorted) -> Tensor:
    """The part of the rule that every rank gets alike, float64 `[..., 1]`."""
    rule = _on_device(rule, ranked.values.device)
    shift = (ranked.gaps @ rule.shift).unsqueeze(-1)
    if not rule.top:
        return shift + rule.constant
    # The constant is taken off the reward before anything is multiplied: both may be large.
    return shift + rule.top * (ranked.values.narrow(-1, rule.base, 1) + rule.constant / rule.top)


def weights_by_rank(rule: Rule, ranked: Sorted) -> Tensor:
    """The rule's w in rank order, float64 `[..., n]`."""
    rises = (ranked.gaps * _on_device(rule, ranked.values.device).steps).cumsum(-1)
    return torch.cat([torch.zeros_like(ranked.top), rises], -1) + level(rule, ranked)


def in_own_order(by_rank: Tensor, ranked: Sorted) -> Tensor:
    """Weights `[..., n]` by rank in the samples' own order."""
    return torch.empty_like(by_rank).scatter_(-1, ranked.order, by_rank)


def apply_rules(rules: Iterable[Rule], rewards: Tensor) -> list[Tensor]:
    """The w of each rule for rewards `[..., n]`, from one sort: float64 `[..., n]`, no gradient."""
    ranked = sort_rewards(rewards.detach())
    return [in_own_order(weights_by_rank(rule, ranked), ranked) for rule in rules]


def apply_rule(rule: Rule, rewards: Tensor) -> Tensor:
    """The rule's w for rewards `[..., n]`: float64 `[..., n]`, in their own order, no gradient."""
    return apply_rules([rule], rewards)[0]


def result_dtype(rewards: Tensor) -> torch.dtype:
    """The rewards' own dtype if it is floating-point, else float64."""
    return rewards.dtype if rewards.is_floating_point() else torch.float64
