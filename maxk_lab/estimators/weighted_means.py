"""Baselines that are weighted means of rewards, with a weight g >= 0 for each sample.

g may be the squared score norm. Only ratios of g matter. If all averaged samples have g = 0, the
mean is unweighted (see `checks.check_trajectory_weights`).

Rewards count from the group's maximum. All terms of a sum then have one sign, so nothing cancels.
`...` are groups, n samples, P prompts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from maxk_lab.estimators import lines
from maxk_lab.estimators.policy_gradients import relative_to_best
from maxk_lab.estimators.ranked import (
    apply_lines,
    level,
    restore_order,
    sort_rewards,
    weights_by_rank,
)

# The most rewards in a block of `optimal_weights`.
_BLOCK = 16_384


def subtract_mean(rewards: Tensor, g: Tensor) -> Tensor:
    """Return (R_i - the weighted mean of the group) / n, `[..., n]`."""
    x = relative_to_best(rewards)
    return (x - (g * x).sum(-1, keepdim=True) / g.sum(-1, keepdim=True)) / x.shape[-1]


def subtract_mean_of_others(rewards: Tensor, g: Tensor) -> Tensor:
    """Return (R_i - the weighted mean of the other samples) / n, `[..., n]`."""
    x = relative_to_best(rewards)
    return (x - _sum_of_others(g * x) / _sum_of_others(g)) / x.shape[-1]


def optimal_weights(rewards: Tensor, g: Tensor, k: int) -> Tensor:
    """Return s_i - (n-1)/n times the weighted mean of the other samples' s(-i), `[..., n]`.

    s(-i) are the score weights of the n-1 samples without i. The time is O(n log n), because the
    coefficient of a reward in s_j(-i) depends only on the ranks (see `_shares`).
    """
    n = rewards.shape[-1]
    # The temporaries of a block fit the CPU cache: twice as fast for n = 65 536.
    size = max(1, _BLOCK // n)
    groups, numbers = rewards.reshape(-1, n), g.reshape(-1, n)
    starts = range(0, max(1, len(groups)), size)
    blocks = [_optimal(groups[i : i + size], numbers[i : i + size], k) for i in starts]
    return torch.cat(blocks).view(rewards.shape)


def shrinkage_weights(rewards: Tensor, k: int) -> Tensor:
    """Return the weights of `shrinkage` for rewards `[P, ..., n]`, or of one group `[n]`."""
    n, x = rewards.shape[-1], rewards.detach().double()
    if not x.numel():
        return x
    x = x - x.amax()
    # The shrinkage factor has no unit; relative to the largest reward, no square overflows.
    unit = x.abs().amax()
    x = x / unit.masked_fill(unit == 0, 1.0)
    leave_out = lines.left_out_value(n, k)
    centred, rest = apply_lines([lines.score(n, k) - (k / n) * leave_out, leave_out], x).unbind(-1)
    if x.dim() == 1 or len(x) == 1:
        return unit * centred
    value = level(lines.value(n, k), sort_rewards(x)).squeeze(-1)
    noise = (n - 1) / n * (rest - rest.mean(-1, keepdim=True)).square().sum(-1)
    middle = value.mean(0)
    from_middle = _mean_of_other_prompts(value - middle)
    v = _mean_of_other_prompts(noise)
    s = (_mean_of_other_prompts((value - middle).square()) - from_middle.square()).clamp(min=0.0)
    share = (v / (v + s).masked_fill(v + s == 0, 1.0)).unsqueeze(-1)
    return unit * (centred + k / n * share * (rest - (middle + from_middle).unsqueeze(-1)))


def _mean_of_other_prompts(values: Tensor) -> Tensor:
    """Return the mean over all other entries of the first dimension, for each entry."""
    return (values.sum(0) - values) / (len(values) - 1)


def _optimal(rewards: Tensor, g: Tensor, k: int) -> Tensor:
    """Return the weights of `optimal` for rewards and g `[groups, n]`."""
    n = rewards.shape[-1]
    ranked = sort_rewards(rewards.detach())
    g, x = g.gather(-1, ranked.order), ranked.values - ranked.top
    own_share, lower, own_down, lower_down = _shares(n, k, x.device)
    below = _before(g)
    above_terms = _after(x * lower_down)
    from_below = (below * lower + own_share * g) * x
    from_above = (x * own_down + above_terms) * g
    total = _before(from_below) + below * above_terms + _after(from_above)
    means = (n - 1) / n * total / (below + _after(g))
    # Score weights of rewards minus their maximum, because the means count from it, too.
    score = weights_by_rank(replace(lines.score(n, k), top=0.0), ranked)
    return restore_order(score - means, ranked)


@lru_cache(maxsize=64)
def _shares(n: int, k: int, device: torch.device) -> Tensor:
    """Return a reward's coefficients in the score weights of n-1 samples, float64 `[4, n]`.

    A reward of rank l = 1..n has the coefficient C(l-1, K-1) / C(n-1, K) in the weight of its own
    sample (row 0), and (K-1)/(l-1) times that in the weight of a lower sample (row 1). Both hold
    if the removed sample ranks above the reward. Rows 2 and 3 are for one below: rank l - 1.
    """
    own_share = lines.rank_weights(n - 1, k)
    lower = own_share * (k - 1) / np.arange(n - 1.0).clip(1)
    table = [np.append(own_share, 0), np.append(lower, 0), np.append(0, own_share)]
    # A cached tensor must be usable outside inference mode.
    with torch.inference_mode(False):
        return torch.from_numpy(np.stack([*table, np.append(0, lower)])).to(device)


def _before(values: Tensor) -> Tensor:
    """Return the sum of all earlier values along the last dimension."""
    sums = values[..., :-1].cumsum(-1)
    return torch.cat([torch.zeros_like(values[..., :1]), sums], -1)


def _after(values: Tensor) -> Tensor:
    """Return the sum of all later values along the last dimension."""
    return _before(values.flip(-1)).flip(-1)


def _sum_of_others(values: Tensor) -> Tensor:
    return _before(values) + _after(values)
