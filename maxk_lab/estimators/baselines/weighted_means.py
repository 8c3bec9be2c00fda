"""Baselines that are weighted means: each sample counts with a number g >= 0.

g may be its squared score norm, say.

`g` is `[..., n]` like the rewards, on the same device, of any real dtype and any scale: only ratios
matter. It must be finite and not negative. What is wrong raises `ValueError` for CPU tensors;
elsewhere the check would wait for the device, and the weights come out as NaN instead. Where all
that is averaged has g = 0, as for a policy so sure of itself that its squared scores round to 0,
the mean is the plain one.

Every sum here has terms of one sign, as rewards count from the group's maximum: nothing cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.kinds import TRAJECTORY_WEIGHTS
from maxk_lab.estimators.ranks import derived, maximum
from maxk_lab.estimators.ranks.combinatorics import cached, rank_weights
from maxk_lab.estimators.ranks.gaps import (
    Sorted,
    in_own_order,
    result_dtype,
    sort_rewards,
    weights_by_rank,
)
from maxk_lab.estimators.validation import (
    below_top,
    check_k,
    check_rewards,
    check_trajectory_weights,
)

# Rewards that `optimal_weights` takes at a time.
_BLOCK = 16_384


def mean_weights(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """(R_i - mean R) / n, K = 1 and n >= 2. Biased in scale only: (n-1)/n times `rloo_weights`."""
    _check_one(rewards, k)
    return derived.weigh(derived.group_mean, rewards, 1, stable_sort=stable_sort)


def rloo_weights(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """(R_i - mean of the others) / n, K = 1 and n >= 2. Unbiased."""
    _check_one(rewards, k)
    return derived.weigh(derived.centred, rewards, 1, stable_sort=stable_sort)


def weighted_mean_weights(
    rewards: Tensor, k: int, *, g: Tensor, stable_sort: bool = True
) -> Tensor:
    """(R_i - sum_j g_j R_j / sum_j g_j) / n, K = 1 and n >= 2: OPO, OTB and EOB as published.

    Biased by O(1/n) in direction too: sample i is part of its own baseline.
    """
    n = _check_one(rewards, k)
    g = check_trajectory_weights(g, rewards)
    x = below_top(rewards)
    mean = (g * x).sum(-1, keepdim=True) / g.sum(-1, keepdim=True)
    return ((x - mean) / n).to(result_dtype(rewards))


def weighted_loo_weights(rewards: Tensor, k: int, *, g: Tensor, stable_sort: bool = True) -> Tensor:
    """(R_i - sum_{j!=i} g_j R_j / sum_{j!=i} g_j) / n, K = 1 and n >= 2. Unbiased."""
    n = _check_one(rewards, k)
    g = check_trajectory_weights(g, rewards)
    x = below_top(rewards)
    mean = _sum_of_others(g * x) / _sum_of_others(g)
    return ((x - mean) / n).to(result_dtype(rewards))


def optimal_weights(
    rewards: Tensor,
    k: int,
    *,
    kind: str = "grad_norm",
    g: Tensor | None = None,
    stable_sort: bool = True,
) -> Tensor:
    """s_i - (n-1)/n sum_{j!=i} g_j s_j(-i) / sum_{j!=i} g_j, 1 <= k < n. Unbiased; O(n log n).

    s(-i) are the score weights of the n-1 other samples among themselves. For K = 1 it is
    `weighted_loo_weights`; with equal g, and with any g at n = K + 1, it is `centred_weights`. With
    g = ||grad log pi||^2 it estimates the baseline of least variance for one sample; for K > 1 the
    samples' cross terms are left out of that optimum. `kind` says what g is: with "uniform", g is 1
    and is not given.
    """
    if kind not in TRAJECTORY_WEIGHTS:
        raise LabError(f"kind must be one of {', '.join(TRAJECTORY_WEIGHTS)}, got {kind!r}")
    n = check_rewards(rewards)
    k = check_k(k, n, below_n=True)
    if kind == "uniform":
        return derived.weigh(derived.centred, rewards, k, stable_sort=stable_sort)
    if g is None:
        raise LabError(f"g must be given for kind {kind!r}: one positive number per sample")
    g = check_trajectory_weights(g, rewards)
    groups, weights_of = rewards.detach().reshape(-1, n), g.reshape(-1, n)
    weights = torch.empty(groups.shape, dtype=result_dtype(rewards), device=rewards.device)
    # On the CPU in blocks whose temporaries stay in the cache: next to the sort, fresh memory is
    # what costs time.
    size = max(1, _BLOCK // n) if rewards.device.type == "cpu" else max(1, len(groups))
    for start in range(0, len(groups), size):
        part = slice(start, start + size)
        weights[part] = _optimal(groups[part], weights_of[part], k, stable_sort=stable_sort)
    return weights.reshape(rewards.shape)


def _optimal(rewards: Tensor, g: Tensor, k: int, *, stable_sort: bool) -> Tensor:
    n = rewards.shape[-1]
    ranked = sort_rewards(rewards, stable_sort=stable_sort)
    baseline = _optimal_baseline(ranked, g.gather(-1, ranked.order), n, k)
    # The score weights of rewards minus their maximum, as the baseline is of those.
    score = weights_by_rank(replace(maximum.score(n, k, rewards.device), top=0.0), ranked)
    return in_own_order(score.sub_(baseline), ranked, result_dtype(rewards))


@dataclass(frozen=True)
class _Shares:
    """The share of a reward of rank l = 1..n in score weights among n-1 samples, float64 `[n]`.

    `own` is the share in its own sample's, `lower` in each lower sample's, where the removed sample
    ranks above it; `own_down` and `lower_down` are for a removed sample below it: its rank is then
    l - 1.
    """

    own: Tensor
    lower: Tensor
    own_down: Tensor
    lower_down: Tensor


@cached
def _shares(n: int, k: int, device: torch.device) -> _Shares:
    """C(l-1, K-1) / C(n-1, K) and C(l-2, K-2) / C(n-1, K), and both at l - 1.

    The second is (K-1)/(l-1) of the first.
    """
    own = rank_weights(n - 1, k, device)
    rank = torch.arange(1, n, dtype=torch.float64, device=device)
    lower = own * (k - 1) / (rank - 1).clamp(min=1)
    zero = own.new_zeros(1)
    return _Shares(
        torch.cat([own, zero]),
        torch.cat([lower, zero]),
        torch.cat([zero, own]),
        torch.cat([zero, lower]),
    )


def _optimal_baseline(ranked: Sorted, g: Tensor, n: int, k: int) -> Tensor:
    """The baseline of `optimal_weights`, of rewards minus their maximum, by rank; `g` by rank.

    Sample j's share of the sum for i, all terms <= 0: below i, its own reward's term, the rewards'
    between j and i and those above i; above i, its own reward's and those above j.
    """
    share = _shares(n, k, g.device)
    x = ranked.values - ranked.top
    below = _before(g)
    above_terms = _after(x * share.lower_down)
    # In place from here on, as fresh memory costs time.
    from_below = (below * share.lower).addcmul_(share.own, g).mul_(x)
    from_above = x.mul_(share.own_down).add_(above_terms).mul_(g)
    total = _before(from_below).addcmul_(below, above_terms).add_(_after(from_above))
    return total.mul_((n - 1) / n).div_(below.add_(_after(g)))


def _before(values: Tensor) -> Tensor:
    """The sum of what stands before, along the last dimension.

    It is summed without the own value, not less it.
    """
    sums = torch.empty_like(values)
    sums[..., 0] = 0.0
    torch.cumsum(values[..., :-1], -1, out=sums[..., 1:])
    return sums


def _after(values: Tensor) -> Tensor:
    """The sum of what stands behind, along the last dimension."""
    return _before(values.flip(-1)).flip(-1)


def _sum_of_others(values: Tensor) -> Tensor:
    return _before(values) + _after(values)


def _check_one(rewards: Tensor, k: int) -> int:
    """The number n of samples. Raises `ValueError` unless k = 1 and n >= 2."""
    n = check_rewards(rewards, least_n=2)
    check_k(k, n, most=1)
    return n
