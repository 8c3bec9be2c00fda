"""Means of rewards in which each sample counts with a number g >= 0, taken off the rewards.

g may be its squared score norm, say; only ratios of g matter, and where all that is averaged has
g = 0, as for a policy so sure of itself that its squared scores round to 0, the mean is the plain
one (see `checks.check_trajectory_weights`).

Every sum here has terms of one sign, as rewards count from the group's maximum: nothing cancels.
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

# Rewards that `optimal_weights` takes at a time.
_BLOCK = 16_384


def subtract_mean(rewards: Tensor, g: Tensor) -> Tensor:
    """(R_i - the weighted mean of the group) / n, `[..., n]`."""
    x = relative_to_best(rewards)
    return (x - (g * x).sum(-1, keepdim=True) / g.sum(-1, keepdim=True)) / x.shape[-1]


def subtract_mean_of_others(rewards: Tensor, g: Tensor) -> Tensor:
    """(R_i - the weighted mean of the other samples) / n, `[..., n]`."""
    x = relative_to_best(rewards)
    return (x - _sum_of_others(g * x) / _sum_of_others(g)) / x.shape[-1]


def optimal_weights(rewards: Tensor, g: Tensor, k: int) -> Tensor:
    """s_i - (n-1)/n times the weighted mean of the other samples' s(-i), `[..., n]`.

    O(n log n). Sample j's share of the sum for i, all terms <= 0: below i, its own reward's term,
    the rewards' between j and i and those above i; above i, its own reward's and those above j.
    """
    n = rewards.shape[-1]
    # In blocks whose temporaries stay in the cache: twice as fast for n = 65 536.
    size = max(1, _BLOCK // n)
    groups, numbers = rewards.reshape(-1, n), g.reshape(-1, n)
    starts = range(0, max(1, len(groups)), size)
    blocks = [_optimal(groups[i : i + size], numbers[i : i + size], k) for i in starts]
    return torch.cat(blocks).view(rewards.shape)


def shrinkage_weights(rewards: Tensor, k: int) -> Tensor:
    """The weights of `shrinkage` for rewards `[P, ..., n]`, or of one group `[n]`."""
    n, x = rewards.shape[-1], rewards.detach().double()
    if not x.numel():
        return x
    x = x - x.amax()
    # lambda has no unit: relative to the largest reward, no square overflows.
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
    """The mean over all other entries of the first dimension, for each entry."""
    return (values.sum(0) - values) / (len(values) - 1)


def _optimal(rewards: Tensor, g: Tensor, k: int) -> Tensor:
    """The weights of `optimal` for rewards and g `[groups, n]`."""
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
    # The score weights of rewards minus their maximum, as the mean is of those.
    score = weights_by_rank(replace(lines.score(n, k), top=0.0), ranked)
    return restore_order(score - means, ranked)


@lru_cache(maxsize=64)
def _shares(n: int, k: int, device: torch.device) -> Tensor:
    """The share of a reward of rank l = 1..n in score weights among n-1 samples, float64 `[4, n]`.

    In its own sample's, C(l-1, K-1) / C(n-1, K), and in each lower sample's, (K-1)/(l-1) of that,
    where the removed sample ranks above it; then both for a removed sample below it, at l - 1.
    """
    own_share = lines.rank_weights(n - 1, k)
    lower = own_share * (k - 1) / np.arange(n - 1.0).clip(1)
    table = [np.append(own_share, 0), np.append(lower, 0), np.append(0, own_share)]
    # No mode of the caller counts for a tensor that stays.
    with torch.inference_mode(False):
        return torch.from_numpy(np.stack([*table, np.append(0, lower)])).to(device)


def _before(values: Tensor) -> Tensor:
    """The sum of what stands before, along the last dimension, without the own value."""
    sums = values[..., :-1].cumsum(-1)
    return torch.cat([torch.zeros_like(values[..., :1]), sums], -1)


def _after(values: Tensor) -> Tensor:
    """The sum of what stands behind, along the last dimension."""
    return _before(values.flip(-1)).flip(-1)


def _sum_of_others(values: Tensor) -> Tensor:
    return _before(values) + _after(values)
