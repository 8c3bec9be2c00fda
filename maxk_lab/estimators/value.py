"""Values of n rewards or of a distribution, and functions named after the papers' formulas.

Rewards are `[..., n]`, i.i.d. along n, higher is better, of any real dtype. All functions of
rewards raise `LabError`, a `ValueError`, unless all rewards are finite and K is in range. They
return the rewards' floating dtype (float64 for integers and booleans). Equal rewards get equal
weights; `stable_sort` has no effect and exists for compatibility of signatures.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators import lines
from maxk_lab.estimators.checks import check_k, check_rewards, result_dtype, round_to
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranked import apply_line, level, sort_rewards


def maxk_reward_estimate(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """Return an unbiased estimate of J_K = E[max of K rewards]: the mean maximum of all K-subsets.

    Returns `[...]`, in units of reward, 1 <= k <= n. Source: PKPO, arXiv 2505.15201, Theorem 1.
    """
    k = check_k(k, check_rewards(rewards))
    return objective_estimate(rewards, Objective("max", k))


def maxk_reward_weights(n: int, k: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Return the weight of each rank in the Max@K value, C(i-1, K-1) / C(n, K) for ranks i = 1..n.

    float64 `[n]`, worst reward first, zero below rank K, with sum 1, 1 <= k <= n. Source: PKPO,
    arXiv 2505.15201, Theorem 1.
    """
    return torch.tensor(lines.rank_weights(n, check_k(k, n)), device=device)


def objective_estimate(rewards: Tensor, objective: Objective) -> Tensor:
    """Return an unbiased estimate of E[sum_j alpha_j R_(j:K)]: the mean over all K-subsets.

    Returns `[...]`, in units of reward, K <= n. Source: OrderGrad, arXiv 2606.06096.
    """
    n = check_rewards(rewards)
    k = check_k(objective.k, n)
    line = lines.value(n, k, None if objective.is_max else objective)
    return round_to(level(line, sort_rewards(rewards)).squeeze(-1), result_dtype(rewards))


def maxk_curve(rewards: Tensor) -> Tensor:
    """Return `maxk_reward_estimate` for every K = 1..n from one sort.

    Returns `[..., n]`: entry K-1 is the estimate of J_K. The curve never decreases in K; it starts
    at the mean and ends at the maximum. Takes O(n^2) time, O(n) memory.
    """
    n = check_rewards(rewards)
    ranked = sort_rewards(rewards)
    gap = torch.arange(1, n, dtype=torch.float64, device=rewards.device)
    # C(j, K) / C(n, K) per gap j; the step from K - 1 to K multiplies it by (j-K+1) / (n-K+1).
    below, values = torch.ones_like(gap), []
    for k in range(1, n + 1):
        below = below * (gap - k + 1).clamp(min=0) / (n - k + 1)
        values.append(ranked.top.squeeze(-1) - ranked.gaps @ below)
    return round_to(torch.stack(values, dim=-1), result_dtype(rewards))


def maxk_gradient_weights(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """Return s_i = 1/C(n,K) * sum of max R over the K-subsets with i, `[..., n]`, 1 <= k <= n.

    sum_i s_i grad log pi(tau_i) is unbiased for the gradient of J_K. K = 1 gives R_i / n. Source:
    PKPO, arXiv 2505.15201, Theorem 2.
    """
    return Method.parse("maxk", "none", k).weights(rewards)


def sample_loo_baseline(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """Return the Max@K value of the other n-1 samples for each sample i: independent of R_i, k < n.

    Returns `[..., n]` in units of reward, on the scale of J_K. Score weights have the scale (K/n)
    J_K.
    """
    n = check_rewards(rewards)
    line = lines.left_out_value(n, check_k(k, n, below_n=True))
    return round_to(apply_line(line, rewards), result_dtype(rewards))


def apply_sample_loo(s: Tensor, rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """Return score weights `s` `[..., n]` minus `sample_loo_baseline(rewards, k)`.

    Returns `[..., n]` in the floating dtype of `s`. The estimate is unbiased, but the baseline is
    n/K times too large for s. The baseline `sample_loo` gives these weights without rounding s
    first.
    """
    check_rewards(s, "s")
    check_rewards(rewards)
    if s.shape != rewards.shape:
        raise LabError(
            f"s must have the shape of rewards {list(rewards.shape)}, got {list(s.shape)}"
        )
    return round_to(s.double() - sample_loo_baseline(rewards.double(), k), result_dtype(s))


def subloo_weights(rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor:
    """Return s_i - (K/n) * (Max@(K-1) value of the others), `[..., n]`, 2 <= k <= n: unbiased.

    The weight is the mean over K-subsets of maximum minus second maximum, given to the best sample
    of the subset. It is zero below rank K, never negative, and monotone in the reward. PKPO calls
    it `sloo_minus_one`, arXiv 2505.15201.
    """
    return Method.parse("maxk", "subloo", k).weights(rewards)


def distribution_value(probabilities: Tensor, rewards: Tensor, objective: Objective) -> Tensor:
    """Return J = Σ_j R_(j) (H(F_j) − H(F_{j−1})), a scalar, of probabilities [A] and rewards [A].

    It is differentiable in the probabilities. F_j is the probability of the j lowest rewards. H(F)
    = Σ_j α_j P(Bin(K, F) ≥ j) is the total weight of the rewards up to F: F^K for the maximum of K.
    """
    rewards = rewards.to(probabilities)
    order = rewards.argsort(stable=True)
    top = rewards.max()
    mass = probabilities[order].cumsum(0)
    reached = mass**objective.k if objective.is_max else order_weight(mass, objective)
    steps = torch.diff(reached, prepend=reached.new_zeros(1))
    # Measured from the top reward, so that an offset costs no precision.
    return ((rewards[order] - top) * steps).sum() + top * reached[-1]


def order_weight(mass: Tensor, objective: Objective) -> Tensor:
    """Return H(F) of mass F [...] in [0, 1] → [...], differentiable once.

    H is a Bernstein polynomial of degree K whose coefficients are the partial sums of α. The slope
    H' has degree K − 1 and coefficients K α.
    """
    alpha = torch.tensor(objective.order_weights, dtype=torch.float64, device=mass.device)
    fixed = mass.detach()
    height = _bernstein(fixed, torch.cat([alpha.new_zeros(1), alpha.cumsum(0)]))
    return height + (mass - fixed) * _bernstein(fixed, alpha) * len(alpha)


def _bernstein(mass: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_m c_m C(d, m) F^m (1 − F)^(d−m), d = len(c) − 1, by logarithms."""
    degree = len(coefficients) - 1
    m = torch.arange(degree + 1, dtype=torch.float64, device=mass.device)
    chosen = (
        torch.tensor(degree + 1.0, dtype=torch.float64).lgamma()
        - (m + 1).lgamma()
        - (degree - m + 1).lgamma()
    )
    # Rounding moves sums of probabilities out of [0, 1].
    share = mass.double().clamp(0.0, 1.0).unsqueeze(-1)
    terms = chosen + torch.special.xlogy(m, share) + torch.special.xlog1py(degree - m, -share)
    values: Tensor = terms.exp() @ coefficients
    return values.to(mass)
