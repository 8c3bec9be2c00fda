"""The slow, obviously right twin of every function: subsets enumerated in exact fractions.

Same arguments and shapes as the fast functions; results are float64, rounded once from the exact fraction.
The cost grows like C(n, K): use n <= 10 or so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor

from maxk_lab.estimators.objectives import FORMS, Objective
from maxk_lab.estimators.reference import baselines, estimators, exact, off_policy
from maxk_lab.estimators.reference.exact import fractions, per_group


def maxk_reward_weights(n: int, k: int) -> Tensor:
    """C(i-1, K-1) / C(n, K) for i = 1..n, `[n]`."""
    total = math.comb(n, k)
    shares = [Fraction(math.comb(i - 1, k - 1), total) for i in range(1, n + 1)]
    return torch.tensor([float(x) for x in shares], dtype=torch.float64)


def maxk_reward_estimate(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[...]`."""
    return per_group(exact.value, rewards, k)


def objective_estimate(rewards: Tensor, objective: Objective) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[...]`."""
    return per_group(exact.value, rewards, objective.k, alpha=objective.exact_weights)


def maxk_curve(rewards: Tensor) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(exact.curve, rewards)


def sample_loo_baseline(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(exact.left_out_values, rewards, k)


def maxk_gradient_weights(rewards: Tensor, k: int, *, objective: Objective | None = None) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.none, rewards, k, objective=objective)


def group_mean_weights(rewards: Tensor, k: int, *, objective: Objective | None = None) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.group_mean, rewards, k, objective=objective)


def centred_weights(rewards: Tensor, k: int, *, objective: Objective | None = None) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.centred, rewards, k, objective=objective)


def sample_loo_weights(rewards: Tensor, k: int, *, objective: Objective | None = None) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.sample_loo, rewards, k, objective=objective)


def pkpo_sloo_weights(rewards: Tensor, k: int, *, objective: Objective | None = None) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.pkpo_sloo, rewards, k, objective=objective)


def subloo_weights(rewards: Tensor, k: int, *, objective: Objective | None = None) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.subloo, rewards, k, objective=objective)


def affine_weights(
    rewards: Tensor, k: int, *, alpha: float = 0.5, objective: Objective | None = None
) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.affine, rewards, k, alpha=alpha, objective=objective)


def ladder_weights(rewards: Tensor, k: int, *, alpha: Sequence[float]) -> Tensor:
    """Twin of the fast one for fixed alpha: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.ladder, rewards, k, alpha=alpha)


def constant_weights(rewards: Tensor, k: int, *, c: float) -> Tensor:
    """Twin of the fast one for fixed c: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.constant, rewards, k, c=c)


def apply_sample_loo(s: Tensor, rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: `[..., n]` and `[..., n]` to `[..., n]`."""
    return s.double() - sample_loo_baseline(rewards, k)


def mean_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.weighted_mean, rewards, k)


def rloo_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return per_group(baselines.weighted_loo, rewards, k)


def weighted_mean_weights(rewards: Tensor, k: int, *, g: Tensor) -> Tensor:
    """Twin of the fast one: rewards and g `[..., n]` to `[..., n]`."""
    return per_group(baselines.weighted_mean, rewards, k, g=g)


def weighted_loo_weights(rewards: Tensor, k: int, *, g: Tensor) -> Tensor:
    """Twin of the fast one: rewards and g `[..., n]` to `[..., n]`."""
    return per_group(baselines.weighted_loo, rewards, k, g=g)


def optimal_weights(
    rewards: Tensor, k: int, *, kind: str = "grad_norm", g: Tensor | None = None
) -> Tensor:
    """Twin of the fast one: rewards and g `[..., n]` to `[..., n]`."""
    return per_group(baselines.optimal, rewards, k, kind=kind, g=g)


def token_advantages(rewards: Tensor, logit_proxies: Tensor, mask: Tensor) -> Tensor:
    """Twin of the fast one: `[n]`, `[n, T]` and `[n, T]`, True up to each sample's end, to `[n, T]`."""
    proxies = [
        fractions(row[:length])
        for row, length in zip(logit_proxies.tolist(), mask.sum(-1).tolist(), strict=True)
    ]
    weights = torch.zeros(mask.shape, dtype=torch.float64)
    for i, row in enumerate(estimators.tokens(fractions(rewards.tolist()), proxies)):
        weights[i, : len(row)] = torch.tensor([float(w) for w in row], dtype=torch.float64)
    return weights


# Catalogue name of a baseline -> its twin; a row without one is checked for unbiasedness only.
TWINS: dict[str, Callable[..., Tensor]] = {
    "none": maxk_gradient_weights,
    "group_mean": group_mean_weights,
    "centred": centred_weights,
    "sample_loo": sample_loo_weights,
    "pkpo_sloo": pkpo_sloo_weights,
    "subloo": subloo_weights,
    "affine": affine_weights,
    "ladder": ladder_weights,
    "constant": constant_weights,
    "mean": mean_weights,
    "rloo": rloo_weights,
    "opo": weighted_mean_weights,
    "opo_loo": weighted_loo_weights,
    "otb": weighted_mean_weights,
    "otb_loo": weighted_loo_weights,
    "eob": weighted_mean_weights,
    "eob_loo": weighted_loo_weights,
    "optimal": optimal_weights,
}
# Catalogue name of an estimator with baseline -> the K at which it takes its baseline's weights.
TWIN_K: dict[str, Callable[[int], int]] = {
    "maxk": lambda k: k,
    "reinforce": lambda k: 1,
    **{form: lambda k: k for form in FORMS if form != "max"},
}
# Catalogue name of an estimator without baseline -> its twin.
ESTIMATOR_TWINS: dict[str, Callable[..., Tensor]] = {
    "grpo": partial(per_group, estimators.grpo),
    "leader_reward": partial(per_group, estimators.leader_reward),
    "hybrid": partial(per_group, estimators.hybrid),
    "passk_analytic": partial(per_group, estimators.passk_analytic),
    "grpo_passk": partial(per_group, estimators.grpo_passk),
    "maxrl": partial(per_group, estimators.maxrl),
    "partitioned": partial(per_group, estimators.partitioned),
}
# Catalogue name of an estimator with importance ratios -> its twin, of rewards, ratios, K and a baseline's name.
RATIO_TWINS: dict[str, Callable[..., Tensor]] = {
    "off_policy_maxk": off_policy.off_policy_weights,
    "off_policy_first_order": off_policy.first_order_weights,
}
# Catalogue name of a fitted baseline -> its twin, of rewards, K and coefficients: `[D]`, or `[..., n]` for joint_optimum.
FITTED_TWINS: dict[str, Callable[[Tensor, int, Tensor], Tensor]] = {
    "affine": lambda rewards, k, fitted: affine_weights(rewards, k, alpha=float(fitted)),
    "ladder": lambda rewards, k, fitted: ladder_weights(rewards, k, alpha=[*fitted.tolist(), 0.0]),
    "constant": lambda rewards, k, fitted: constant_weights(rewards, k, c=float(fitted)),
    "joint_optimum": lambda rewards, k, fitted: per_group(baselines.given, rewards, k, b=fitted),
}
