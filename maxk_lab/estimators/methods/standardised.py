"""Estimators that divide by a statistic of the group itself: widely used, and biased by it.

All take rewards `[..., n]` (i.i.d. along n, higher is better) and return `[..., n]`, the weights of
the sum over i of w_i grad log pi(tau_i), in the samples' order and the rewards' floating dtype
(float64 for integers and booleans). They take no baseline: `baseline_function` is there for the
common signature and is not used.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.methods.maxk import BaselineFunction
from maxk_lab.estimators.ranks import derived, maximum
from maxk_lab.estimators.ranks.gaps import apply_rule, result_dtype, sort_rewards
from maxk_lab.estimators.validation import below_top, check_binary, check_k, check_rewards

# What verl adds to the deviation.
_VERL_EPS = 1e-6


def grpo(
    rewards: Tensor,
    k: int,
    baseline_function: BaselineFunction,
    *,
    eps: float = 1e-4,
    stable_sort: bool = True,
) -> Tensor:
    """(R_i - mean R) / (std R + eps) / n for n >= 2, std with ddof = 1.

    0 where all rewards are equal.

    K counts as 1. Biased: the division gives every group a scale of its own. Shao et al. 2024,
    arXiv 2402.03300.
    """
    if not (math.isfinite(eps) and eps >= 0):
        raise LabError(f"eps must be a finite number >= 0, got {eps!r}")
    n = check_rewards(rewards, least_n=2)
    x = below_top(rewards)
    centred = x - x.mean(-1, keepdim=True)
    return (_ratio(centred, _deviation(x) + eps) / n).to(result_dtype(rewards))


def passk_analytic(
    rewards: Tensor, k: int, baseline_function: BaselineFunction, *, stable_sort: bool = True
) -> Tensor:
    """The standardised pass@K of all K-subsets, for rewards 0 or 1 and 1 <= k < n.

    With rho the share of K-subsets that hold a success, a sample's advantage is (its subsets' share
    - rho) / sqrt(rho (1 - rho)), and its weight that over n: `group_mean_weights` over K times the
    deviation. 0 where rho is 0 or 1. K = 1 is GRPO with the deviation of ddof = 0 and no eps.
    Biased, like it. K = n is refused: there rho is 0 or 1 in every group. Chen et al. 2025, arXiv
    2508.10751.
    """
    n = check_rewards(rewards)
    k = check_k(k, n, below_n=True)
    values = check_binary(rewards)
    rule = derived.group_mean(n, k, None, values.device)
    numerator = apply_rule(rule, values, stable_sort=stable_sort)
    ranked = sort_rewards(values, stable_sort=stable_sort)
    fail = (
        1.0
        - ranked.top
        + (ranked.gaps @ maximum.value_shortfall(n, k, values.device)).unsqueeze(-1)
    )
    return (_ratio(numerator, (fail * (1.0 - fail)).sqrt()) / k).to(result_dtype(rewards))


def grpo_passk(
    rewards: Tensor,
    k: int,
    baseline_function: BaselineFunction,
    *,
    norm: str = "std",
    stable_sort: bool = True,
) -> Tensor:
    """Best minus second-best reward, to the best sample, for k = n >= 2: `subloo_weights` at K = n.

    norm "std" (the default of verl) divides it by std R + 1e-6, with ddof = 1, and so biases it;
    "none" does not. Equal best rewards give 0. verl multiplies both by 1/n, which is left out here.
    """
    if norm not in ("std", "none"):
        raise LabError(f"norm must be std or none, got {norm!r}")
    n = check_rewards(rewards, least_n=2)
    if check_k(k, n) != n:
        raise LabError(f"k must be n = {n}, got {k!r}")
    rule = derived.subloo(n, n, None, rewards.device)
    if norm == "none":
        return apply_rule(rule, rewards, stable_sort=stable_sort)
    gap = apply_rule(rule, rewards.double(), stable_sort=stable_sort)
    return _ratio(gap, _deviation(below_top(rewards)) + _VERL_EPS).to(result_dtype(rewards))


def maxrl(
    rewards: Tensor, k: int, baseline_function: BaselineFunction, *, stable_sort: bool = True
) -> Tensor:
    """(R_i - mean R) / mean R / n for rewards 0 or 1 and n >= 2.

    0 where no reward is 1. K counts as 1.

    With success probability p its mean is the sum over j < n-1 of (1-p)^j, times the gradient of p:
    unbiased for the sum over k < n of pass@k / k, not for p. Tajwar et al. 2026, arXiv 2602.02710.
    """
    n = check_rewards(rewards, least_n=2)
    values = check_binary(rewards)
    mean = values.mean(-1, keepdim=True)
    return (_ratio(values - mean, mean) / n).to(result_dtype(rewards))


def _deviation(x: Tensor) -> Tensor:
    """The standard deviation with ddof = 1, `[..., 1]`; 0 for equal x.

    Its squares neither over- nor underflow.
    """
    reach = x.abs().amax(dim=-1, keepdim=True)
    relative = x / torch.where(reach == 0, 1.0, reach)
    squares = (relative - relative.mean(-1, keepdim=True)).square_().sum(-1, keepdim=True)
    return reach * (squares / (x.shape[-1] - 1)).sqrt_()


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, and 0 where the denominator is 0 (the numerator is, too)."""
    zero = denominator == 0
    return torch.where(zero, 0.0, numerator / torch.where(zero, 1.0, denominator))
