"""Advantage functions as public code has got them wrong, rewritten from descriptions.

    maxk-lab check examples/wrong_advantages.py:too_large_a_baseline

names what each of them computes. None is to be trained with.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from maxk_lab.estimators import maxk_gradient_weights, maxk_reward_estimate


def others(rewards: Tensor, i: int) -> Tensor:
    """The group without sample i."""
    return torch.cat([rewards[:i], rewards[i + 1 :]])


def too_large_a_baseline(rewards: Tensor, k: int) -> Tensor:
    """Subtract the value of the other samples, which is n/K times what the weights are about."""
    values = [maxk_reward_estimate(others(rewards, i), k) for i in range(len(rewards))]
    return maxk_gradient_weights(rewards, k) - torch.stack(values)


def in_group_mean(rewards: Tensor, k: int) -> Tensor:
    """Subtract the mean weight of the group and call it leave-one-out."""
    weights = maxk_gradient_weights(rewards, k)
    return weights - weights.mean()


def gap_for_all(rewards: Tensor, k: int) -> Tensor:
    """Give the best reward minus the second best to every sample, not to the best alone."""
    best, second = rewards.double().topk(2).values
    return (best - second).expand(len(rewards))


def scale_biased_pkpo(rewards: Tensor, k: int) -> Tensor:
    """End PKPO's transformation with the rewards' mean-centring, as advantages of mean losses."""
    return len(rewards) * in_group_mean(rewards, k)


def listing_on_integers(rewards: Tensor, k: int) -> Tensor:
    """Fill weights like the rewards: of whole numbers they are whole numbers, too, and so 0."""
    n, order = len(rewards), rewards.argsort()
    ranked, weights = rewards[order], torch.zeros_like(rewards)
    for i in range(n):
        alone = math.comb(i, k - 1) / math.comb(n, k) * ranked[i]
        above = sum(math.comb(j - 1, k - 2) / math.comb(n, k) * ranked[j] for j in range(i + 1, n))
        weights[order[i]] = alone + above
    return weights


def beyond_rank_k(rewards: Tensor, k: int) -> Tensor:
    """Compare ranks with > where the sample of rank K itself can be the best of K, too."""
    n, order = len(rewards), rewards.argsort()
    ranked, weights = rewards[order].double(), torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        alone = math.comb(i, k - 1) / math.comb(n, k) * ranked[i] if i + 1 > k else 0.0
        above = sum(math.comb(j - 1, k - 2) / math.comb(n, k) * ranked[j] for j in range(i + 1, n))
        weights[order[i]] = alone + above
    return weights


def binomials_as_floats(rewards: Tensor, k: int) -> Tensor:
    """Divide binomials that a float holds up to n = 1,029 or so."""
    n = len(rewards)
    k = n // 2 if n > 1000 else k

    def comb(a: int, b: int) -> Tensor:
        a_, b_ = torch.tensor(float(a)), torch.tensor(float(b))
        inside = torch.lgamma(a_ + 1) - torch.lgamma(b_ + 1) - torch.lgamma(a_ - b_ + 1)
        return inside.double().exp() if 0 <= b <= a else torch.zeros((), dtype=torch.float64)

    order = rewards.argsort()
    alone = torch.stack([comb(i, k - 1) for i in range(n)]) / comb(n, k) * rewards[order]
    share = torch.stack([comb(i - 1, k - 2) for i in range(n)]) / comb(n, k) * rewards[order]
    above = share.flip(0).cumsum(0).flip(0) - share
    return torch.zeros_like(alone).scatter(0, order, alone + above)


def divided_by_the_deviation(rewards: Tensor) -> Tensor:
    """Divide by the deviation of the group, as GRPO does."""
    return (rewards - rewards.mean()) / (rewards.std() + 1e-4)


def z_scored_gaps(rewards: Tensor, k: int) -> Tensor:
    """Standardise weights that are made of gaps, group by group."""
    weights = in_group_mean(rewards, k)
    return weights / (weights.std() + 1e-8)
