"""The value of n rewards: Max@K for one K, for every K, without each sample; any objective."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import derived, l_statistic, maximum
from maxk_lab.estimators.ranks.combinatorics import shortfall_blocks
from maxk_lab.estimators.ranks.derived import weigh
from maxk_lab.estimators.ranks.gaps import result_dtype, shift, sort_rewards
from maxk_lab.estimators.validation import check_k, check_rewards


def maxk_reward_estimate(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """An unbiased estimate of J_K = E[max of K rewards]: the mean maximum of all K-subsets.

    rewards: `[..., n]`, i.i.d. along n, higher is better. Returns `[...]` in the rewards' floating
    dtype (float64 for integers and booleans), in units of reward. Raises `ValueError` unless 1 <= k
    <= n and all rewards are finite. Source: PKPO, arXiv 2505.15201, Theorem 1.
    """
    n = check_rewards(rewards)
    k = check_k(k, n)
    ranked = sort_rewards(rewards, stable_sort=stable_sort)
    value = ranked.top.squeeze(-1) - ranked.gaps @ maximum.value_shortfall(n, k, rewards.device)
    return value.to(result_dtype(rewards))


def objective_estimate(
    rewards: Tensor, objective: Objective, *, stable_sort: bool = True
) -> Tensor:
    """Unbiased estimate of E[sum_j alpha_j R_(j:K)]: the mean, over all K-subsets, of that sum.

    rewards: `[..., n]`, i.i.d. along n, higher is better. Returns `[...]` as `maxk_reward_estimate`
    does, which it is for a maximum. Raises `ValueError` unless the objective's K <= n and all
    rewards are finite. Source: OrderGrad, arXiv 2606.06096.
    """
    if objective.is_max:
        return maxk_reward_estimate(rewards, objective.k, stable_sort=stable_sort)
    n = check_rewards(rewards)
    check_k(objective.k, n)
    ranked = sort_rewards(rewards, stable_sort=stable_sort)
    value = shift(l_statistic.value(n, objective, rewards.device), ranked).squeeze(-1)
    return value.to(result_dtype(rewards))


def maxk_curve(rewards: Tensor, *, stable_sort: bool = True) -> Tensor:
    """`maxk_reward_estimate` for every K = 1..n from one sort.

    rewards: `[..., n]`. Returns `[..., n]`, entry K-1 the estimate of J_K, never decreasing in K;
    it starts at the mean and ends at the maximum. Raises `ValueError` unless all rewards are
    finite. Takes O(n^2) time, O(n) memory.
    """
    n = check_rewards(rewards)
    ranked = sort_rewards(rewards, stable_sort=stable_sort)
    shortfall = torch.cat(
        [ranked.gaps @ block for block in shortfall_blocks(n, rewards.device)], dim=-1
    )
    return (ranked.top - shortfall).to(result_dtype(rewards))


def sample_loo_baseline(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """The Max@K value of the other n-1 samples, for every sample i: independent of R_i.

    rewards: `[..., n]`. Returns `[..., n]` in the samples' order, in units of reward: the scale of
    J_K, where the score weights have the scale (K/n) J_K. Raises `ValueError` unless 1 <= k < n and
    all rewards are finite.
    """
    return weigh(derived.left_out_value, rewards, k, below_n=True, stable_sort=stable_sort)
