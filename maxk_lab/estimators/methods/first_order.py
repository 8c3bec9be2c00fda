"""Max@K from samples of another policy, with the product of ratios made a sum: biased."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators.methods.off_policy import (
    OFF_POLICY_BASELINES,
    checked_k,
    sorted_with_ratios,
)
from maxk_lab.estimators.ranks import maximum
from maxk_lab.estimators.ranks.combinatorics import rank_weights
from maxk_lab.estimators.ranks.gaps import apply_rule, in_own_order, result_dtype
from maxk_lab.estimators.validation import check_rewards


def first_order_weights(
    rewards: Tensor, ratios: Tensor, k: int, baseline: str = "none", *, stable_sort: bool = True
) -> Tensor:
    """`off_policy_weights` with the product of ratios replaced by 1 + sum_j (r_j - 1): biased.

    The own ratio in front of a baseline stays exact, so that the baselines add no bias of their
    own. None is blind to a constant added to the rewards unless all ratios are one. Arguments and
    errors as there; O(n log n). Source: the first-order form of arXiv 2510.23393.
    """
    n = check_rewards(rewards)
    k = checked_k(k, n, baseline)
    ranked, by_rank = sorted_with_ratios(rewards, ratios, stable_sort=stable_sort)
    own = OFF_POLICY_BASELINES[baseline]
    rule, excess = own.on_policy(n, k, None, rewards.device), by_rank - 1
    weights = apply_rule(rule, rewards.double(), stable_sort=True)
    change, _ = _first_order_change(ranked.values, excess, k)
    if own.fewer is not None:
        at = k - own.fewer
        of_others = maximum.left_out_value(n, at, rewards.device)
        left_out = apply_rule(of_others, ranked.values, stable_sort=True)
        share, value = _first_order_change(ranked.values, excess, at)
        # value = share + (n-K)/n * (value of the others), so that of its change, too.
        others = n / (n - at) * (value - share)
        change = change - (k / n) * (by_rank * others + excess * left_out)
    return (weights + in_own_order(change, ranked, torch.float64)).to(result_dtype(rewards))


def _first_order_change(x: Tensor, excess: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The change of score weights `[..., n]` and Max@K value `[..., 1]` by first-order ratios.

    x is by rank.

    excess: r - 1 by rank. With C(a,b)/C(n,K) for subsets whose best sample has rank l and that hold
    one, two or three given samples, the best among them.
    """
    n = x.shape[-1]
    rank = torch.arange(1, n + 1, dtype=torch.float64, device=x.device)
    one = x * rank_weights(n, k, x.device)
    two = one * (k - 1) / (rank - 1).clamp(min=1)
    three = two * (k - 2) / (rank - 2).clamp(min=1)
    worse = excess.cumsum(-1) - excess
    as_best = excess * one + worse * two
    own = excess * (one + _sum_behind(two - three))
    score = own + worse * two + _sum_behind(excess * two + worse * three)
    return score, as_best.sum(-1, keepdim=True)


def _sum_behind(values: Tensor) -> Tensor:
    """The sum of the `values` `[..., n]` at higher ranks, for every rank."""
    return values.flip(-1).cumsum(-1).flip(-1) - values
