"""The leave-one-out baselines: each function gives w_i = s_i - b_i of one catalogue row.

All take rewards `[..., n]` (i.i.d. along n, higher is better) and K, and return `[..., n]` in the
samples' order and the rewards' floating dtype (float64 for integers and booleans). All raise
`ValueError` where K is outside the stated range or a reward is not finite. The gradient estimate is
the sum, not the mean, of w_i grad log pi(tau_i).

Stated for the maximum. With an `objective` E[sum_j alpha_j R_(j:K)] of this K, s_i and the value of
the others are those of the objective, and "at K-1" means its reduced form (`Objective.reduced`).
"""

from __future__ import annotations

import math

from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import derived
from maxk_lab.estimators.ranks.derived import weigh
from maxk_lab.estimators.ranks.gaps import apply_rule
from maxk_lab.estimators.validation import check_k, check_rewards
from maxk_lab.estimators.value import sample_loo_baseline


def group_mean_weights(
    rewards: Tensor, k: int, *, objective: Objective | None = None, stable_sort: bool = True
) -> Tensor:
    """s_i minus the mean of s, 1 <= k < n.

    Biased in scale only: (1 - K/n) times `centred_weights`.
    """
    return weigh(derived.group_mean, rewards, k, objective, below_n=True, stable_sort=stable_sort)


def centred_weights(
    rewards: Tensor, k: int, *, objective: Objective | None = None, stable_sort: bool = True
) -> Tensor:
    """s_i - (K/n) * (Max@K value of the others) = n/(n-K) * (s_i - mean s), 1 <= k < n.

    RLOO at K = 1. Unbiased.
    """
    return weigh(derived.centred, rewards, k, objective, below_n=True, stable_sort=stable_sort)


def sample_loo_weights(
    rewards: Tensor, k: int, *, objective: Objective | None = None, stable_sort: bool = True
) -> Tensor:
    """s_i - (Max@K value of the others), 1 <= k < n.

    Unbiased, but the baseline is n/K too large for s.
    """
    return weigh(derived.sample_loo, rewards, k, objective, below_n=True, stable_sort=stable_sort)


def pkpo_sloo_weights(
    rewards: Tensor, k: int, *, objective: Objective | None = None, stable_sort: bool = True
) -> Tensor:
    """s_i - K/(n-1) * (Max@K value of the others), 1 <= k < n. Unbiased.

    PKPO's `sloo`, arXiv 2505.15201.
    """
    return weigh(derived.pkpo_sloo, rewards, k, objective, below_n=True, stable_sort=stable_sort)


def subloo_weights(
    rewards: Tensor, k: int, *, objective: Objective | None = None, stable_sort: bool = True
) -> Tensor:
    """s_i - (K/n) * (Max@(K-1) value of the others), 2 <= k <= n. Unbiased.

    The mean over subsets of K of maximum minus second maximum, given to the subset's best sample:
    exactly zero below rank K, never negative, monotone in the reward. PKPO's `sloo_minus_one`,
    arXiv 2505.15201. For another objective: the mean of what the sample adds to its subsets,
    against the reduced objective without it.
    """
    return weigh(derived.subloo, rewards, k, objective, low=2, stable_sort=stable_sort)


def affine_weights(
    rewards: Tensor,
    k: int,
    *,
    alpha: float = 0.5,
    objective: Objective | None = None,
    stable_sort: bool = True,
) -> Tensor:
    """(1 - alpha) * centred + alpha * subloo, 1 <= k < n, and 2 <= k unless alpha = 0.

    Unbiased for every fixed alpha. `alpha` is any finite number, fixed before the rewards are seen.
    """
    if isinstance(alpha, str) or not math.isfinite(alpha):
        raise LabError(f"alpha must be a finite number, got {alpha!r}")
    alpha = float(alpha)
    n = check_rewards(rewards)
    k = check_k(k, n, low=1 if alpha == 0 else 2, below_n=True)
    rule = derived.affine(n, k, objective, alpha, rewards.device)
    return apply_rule(rule, rewards, stable_sort=stable_sort)


def apply_sample_loo(s: Tensor, rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """`s` minus `sample_loo_baseline(rewards, k)`, for score weights `[..., n]` of these rewards.

    Returns `[..., n]` in the floating dtype of `s`. Raises `ValueError` unless n > k >= 1 and the
    shapes agree. `sample_loo_weights(rewards, k)` is the same in one step, without rounding s
    first.
    """
    check_rewards(s, "s")
    check_rewards(rewards)
    if s.shape != rewards.shape:
        raise LabError(
            f"s must have the shape of rewards {list(rewards.shape)}, got {list(s.shape)}"
        )
    baseline = sample_loo_baseline(rewards.double(), k, stable_sort=stable_sort)
    difference = s.double() - baseline
    return difference.to(s.dtype) if s.is_floating_point() else difference
