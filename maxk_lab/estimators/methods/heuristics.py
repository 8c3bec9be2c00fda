"""Estimators that favour the best sample by rule of thumb, biased for every J_K.

Arguments and results as in `standardised`: `[..., n]` to `[..., n]`, no baseline.
"""

from __future__ import annotations

import math

from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.methods.maxk import BaselineFunction
from maxk_lab.estimators.ranks import derived
from maxk_lab.estimators.ranks.gaps import apply_rule, result_dtype
from maxk_lab.estimators.validation import below_top, check_k, check_rewards


def leader_reward(
    rewards: Tensor,
    k: int,
    baseline_function: BaselineFunction,
    *,
    alpha: float = 1.0,
    stable_sort: bool = True,
) -> Tensor:
    """[R_i - mean R + alpha (max R - mean R) if i is the best] / n for n >= 2; `k` does not enter.

    Samples tied at the top share alpha equally, so that equal rewards get equal weights. alpha = 0
    is `mean_weights`. Biased. Wang et al. 2024 (Leader Reward), arXiv 2405.13947.
    """
    if not (math.isfinite(alpha) and alpha >= 0):
        raise LabError(f"alpha must be a finite number >= 0, got {alpha!r}")
    n = check_rewards(rewards, least_n=2)
    check_k(k, n)
    x = below_top(rewards)
    mean = x.mean(-1, keepdim=True)
    best = (x == 0).double()
    share = alpha * best / best.sum(-1, keepdim=True)
    return ((x - mean - share * mean) / n).to(result_dtype(rewards))


def hybrid(
    rewards: Tensor,
    k: int,
    baseline_function: BaselineFunction,
    *,
    lambda_: float = 0.5,
    stable_sort: bool = True,
) -> Tensor:
    """lambda_ * subloo + (1 - lambda_) * (R_i - mean R), 2 <= k <= n and 0 <= lambda_ <= 1.

    The two terms live on different scales, K/n and 1: the second carries no factor 1/n. Biased for
    every J_K unless lambda_ = 1, which is `subloo_weights`.
    """
    if not 0 <= lambda_ <= 1:
        raise LabError(f"lambda_ must be a number from 0 to 1, got {lambda_!r}")
    n = check_rewards(rewards)
    k = check_k(k, n, low=2)
    x = below_top(rewards)
    mean_centred = x - x.mean(-1, keepdim=True)
    rule = derived.subloo(n, k, None, rewards.device)
    gaps = apply_rule(rule, rewards.double(), stable_sort=stable_sort)
    return (lambda_ * gaps + (1.0 - lambda_) * mean_centred).to(result_dtype(rewards))
