"""The slow, obviously right twin of every function: subsets enumerated in exact fractions.

Same arguments and shapes as the fast functions; results are float64, rounded once from the exact
fraction. The cost grows like C(n, K): use n <= 10 or so.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor

from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.reference import baselines, estimators, exact
from maxk_lab.estimators.reference.exact import fractions, per_group

maxk_reward_estimate = partial(per_group, exact.value)
maxk_curve = partial(per_group, exact.curve)
sample_loo_baseline = partial(per_group, exact.left_out_values)
maxk_gradient_weights = partial(per_group, baselines.none)
group_mean_weights = partial(per_group, baselines.group_mean)
centred_weights = partial(per_group, baselines.centred)
sample_loo_weights = partial(per_group, baselines.sample_loo)
pkpo_sloo_weights = partial(per_group, baselines.pkpo_sloo)
subloo_weights = partial(per_group, baselines.subloo)
affine_weights = partial(per_group, baselines.affine)
ladder_weights = partial(per_group, baselines.ladder)
constant_weights = partial(per_group, baselines.constant)
mean_weights = partial(per_group, baselines.weighted_mean)
rloo_weights = partial(per_group, baselines.weighted_loo)
weighted_mean_weights = partial(per_group, baselines.weighted_mean)
weighted_loo_weights = partial(per_group, baselines.weighted_loo)
optimal_weights = partial(per_group, baselines.optimal)


def maxk_reward_weights(n: int, k: int) -> Tensor:
    """C(i-1, K-1) / C(n, K) for i = 1..n, `[n]`."""
    total = math.comb(n, k)
    shares = [Fraction(math.comb(i - 1, k - 1), total) for i in range(1, n + 1)]
    return torch.tensor([float(x) for x in shares], dtype=torch.float64)


def objective_estimate(rewards: Tensor, objective: Objective) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[...]`."""
    return per_group(exact.value, rewards, objective.k, alpha=objective.exact_weights)


def apply_sample_loo(s: Tensor, rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: `[..., n]` and `[..., n]` to `[..., n]`."""
    return s.double() - sample_loo_baseline(rewards, k)


def token_advantages(rewards: Tensor, logit_proxies: Tensor, mask: Tensor) -> Tensor:
    """Twin of the fast one: `[n]`, `[n, T]` and `[n, T]` to `[n, T]`.

    mask is True up to each sample's end.
    """
    proxies = [
        fractions(row[:length])
        for row, length in zip(logit_proxies.tolist(), mask.sum(-1).tolist(), strict=True)
    ]
    weights = torch.zeros(mask.shape, dtype=torch.float64)
    for i, row in enumerate(estimators.tokens(fractions(rewards.tolist()), proxies)):
        weights[i, : len(row)] = torch.tensor([float(w) for w in row], dtype=torch.float64)
    return weights
