"""Sorted rewards, their gaps, and what a rule on the gaps gives to each sample.

Every quantity of this room is, in rank order and with gaps d_j = R_(j+1) - R_(j) >= 0, j = 1..n-1,

    w_(i) = sum_{j<i} steps_j d_j + sum_j shift_j d_j + top * R_(base) + constant

with base = n for the maximum, because its score weights obey s_(i+1) - s_(i) = d_j C(i-1, K-1) /
C(n, K), j = i, and s_(n) = (K/n) R_(n). The terms of each sum have one sign, so nothing cancels:
equal rewards get equal weights, and a rule with `top` = 0 does not see a constant added to the
rewards, not even a huge one. Rules add up, and so do their weights.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    if real.element_size() <= 4 and real.device.type == "cpu" and not real.requires_grad:
        values, order = _sort_keys(real.float())
    else:
        values, order = torch.sort(real, dim=-1, stable=True)
    values = values.double()
    return Sorted(order, values, values.diff(dim=-1))


def _sort_keys(rewards: Tensor) -> tuple[Tensor, Tensor]:
    """Sort float32 `[..., n]` stably as whole numbers: the reward above, the position below.

    numpy sorts int64 with vector instructions: 512 groups of 64 in 0.3 ms, which take `torch.sort`
    2 ms. NaN sorts to either end.
    """
    # Adding 0 turns -0.0, whose bits differ, into 0.0: they are a tie.
    keys = _order_of_bits((rewards + 0.0).view(torch.int32)).long() << 32
    keys |= torch.arange(rewards.shape[-1])
    keys.numpy().sort(axis=-1)
    return _order_of_bits((keys >> 32).int()).view(torch.float32), keys & 0xFFFFFFFF


def _order_of_bits(bits: Tensor) -> Tensor:
    """The bits of float32, sign and magnitude, as int32 in the numbers' order; its own inverse."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


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
    # In place: next to the sort, what costs time is touching fresh memory.
    by_rank = torch.zeros_like(ranked.values)
    torch.mul(ranked.gaps, _on_device(rule, ranked.values.device).steps, out=by_rank[..., 1:])
    return by_rank.cumsum_(-1).add_(level(rule, ranked))


def restore_order(by_rank: Tensor, ranked: Sorted) -> Tensor:
    """Weights `[..., n]` by rank in the samples' own order."""
    return torch.empty_like(by_rank).scatter_(-1, ranked.order, by_rank)


def apply_rule(rule: Rule, rewards: Tensor) -> Tensor:
    """The rule's w for rewards `[..., n]`: float64 `[..., n]`, in their own order, no gradient."""
    ranked = sort_rewards(rewards.detach())
    return restore_order(weights_by_rank(rule, ranked), ranked)


def apply_rules(rules: Sequence[Rule], rewards: Tensor) -> Tensor:
    """The w of D rules for rewards `[..., n]` from one sort: float64 `[..., n, D]`, no gradient."""
    ranked = sort_rewards(rewards.detach())
    each = [restore_order(weights_by_rank(rule, ranked), ranked) for rule in rules]
    return torch.stack(each, -2).mT


def result_dtype(rewards: Tensor) -> torch.dtype:
    """The rewards' own dtype if it is floating-point, else float64."""
    return rewards.dtype if rewards.is_floating_point() else torch.float64
