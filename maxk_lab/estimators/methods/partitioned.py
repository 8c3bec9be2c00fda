"""The estimator on disjoint groups of K samples: one maximum each, no sample in two subsets."""

from __future__ import annotations

from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.methods.maxk import BaselineFunction
from maxk_lab.estimators.ranks import derived
from maxk_lab.estimators.validation import check_k, check_rewards


def partitioned(
    rewards: Tensor,
    k: int,
    baseline_function: BaselineFunction,
    *,
    baseline: str = "none",
    stable_sort: bool = True,
) -> Tensor:
    """(K/n) times the maximum of the sample's group.

    `loo` takes the mean of the other groups' maxima off it.

    rewards: `[..., n]`, i.i.d. along n, higher is better; the groups are K neighbours each. Returns
    `[..., n]`, the weights of the sum over i of w_i grad log pi(tau_i): each of the n/K groups
    counts with K/n. Unbiased for the gradient of J_K. Raises `ValueError` unless K divides n, and
    for `loo` n >= 2 K. `baseline_function` is there for the common signature and is not used.
    Source: PKPO, arXiv 2505.15201, Figure 4.
    """
    if baseline not in ("none", "loo"):
        raise LabError(f"baseline must be none or loo, got {baseline!r}")
    n = check_rewards(rewards)
    k = check_k(k, n)
    groups = n // k
    if n % k:
        raise LabError(f"k must be a divisor of n = {n}, got {k}")
    if baseline == "loo" and groups < 2:
        raise LabError(f"k must be at most n / 2 = {n / 2:g} for loo, got {k}")
    # Each maximum is one sample of an ordinary mean over the groups.
    best = rewards.detach().reshape(*rewards.shape[:-1], groups, k).amax(-1)
    rule_of = derived.centred if baseline == "loo" else derived.score
    weights = derived.weigh(rule_of, best, 1, stable_sort=stable_sort)
    return weights.repeat_interleave(k, dim=-1)
