"""The score weights s_i: the Max@K gradient without baseline, and what spends them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import derived


class BaselineFunction(Protocol):
    """Rewards `[..., n]` and K to weights w = s - b `[..., n]`, its parameters already bound."""

    def __call__(self, rewards: Tensor, k: int, *, stable_sort: bool = True) -> Tensor: ...


def maxk_gradient_weights(
    rewards: Tensor, k: int, *, objective: Objective | None = None, stable_sort: bool = True
) -> Tensor:
    """s_i = 1/C(n,K) * sum of max R over the K-subsets that contain i: the baseline `none`.

    sum_i s_i grad log pi(tau_i) is unbiased for the gradient of J_K when the n samples are i.i.d.;
    it is a sum, not a mean, over samples: the weights already carry the factor K/n. K = 1 gives R_i
    / n. With an `objective` E[sum_j alpha_j R_(j:K)] of this K, that sum takes the place of the
    maximum.

    rewards: `[..., n]`, higher is better. Returns `[..., n]` in the samples' order and the rewards'
    floating dtype (float64 for integers and booleans). Raises `ValueError` unless 1 <= k <= n and
    all rewards are finite. Source: PKPO, arXiv 2505.15201, Theorem 2.
    """
    return derived.weigh(derived.score, rewards, k, objective, stable_sort=stable_sort)


def maxk(
    rewards: Tensor, k: int, baseline_function: BaselineFunction, *, stable_sort: bool = True
) -> Tensor:
    """The estimator `maxk`: the baseline's weights at K, `[..., n]`, for the gradient of J_K.

    The L-statistics run through it, too, with their objective bound to the baseline's function.
    """
    return baseline_function(rewards, k, stable_sort=stable_sort)


def reinforce(
    rewards: Tensor, k: int, baseline_function: BaselineFunction, *, stable_sort: bool = True
) -> Tensor:
    """The estimator `reinforce`: the baseline's weights at K = 1 whatever `k` is, for J_1."""
    return baseline_function(rewards, 1, stable_sort=stable_sort)
