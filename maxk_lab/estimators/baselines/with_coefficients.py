"""Baselines with given coefficients: the affine one, the ladder, a constant, any vector.

`coefficients` `[..., D]` broadcast over the leading dimensions of the rewards `[..., n]`. The
weights stay unbiased for every choice of coefficients that does not depend on the samples' own
rewards and scores. Arguments and results are otherwise as in `baselines`: `[..., n]` in the
samples' order, for the sum of w_i grad log pi(tau_i).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.baselines.linear_families import family_terms
from maxk_lab.estimators.ranks import derived
from maxk_lab.estimators.ranks.combinatorics import cached
from maxk_lab.estimators.ranks.gaps import result_dtype
from maxk_lab.estimators.validation import check_k, check_rewards


def affine_weights(
    rewards: Tensor, k: int, *, coefficients: Tensor, stable_sort: bool = True
) -> Tensor:
    """centred + alpha (subloo - centred), alpha = coefficients `[..., 1]`, 2 <= k < n."""
    return _of_family("affine", rewards, k, coefficients, stable_sort=stable_sort)


def ladder_weights(
    rewards: Tensor, k: int, *, coefficients: Tensor, stable_sort: bool = True
) -> Tensor:
    """s_i - (K/n) sum_k<=K alpha_k rho_-i(k), 2 <= k < n.

    coefficients `[..., K-1]` are alpha_1 to alpha_(K-1).

    alpha_K is what is left of 1. rho_-i(k) is the Max@k value of the other samples.
    """
    return _of_family("ladder", rewards, k, coefficients, stable_sort=stable_sort)


def constant_weights(
    rewards: Tensor, k: int, *, coefficients: Tensor, stable_sort: bool = True
) -> Tensor:
    """s_i - (K/n) c, c = coefficients `[..., 1]` in units of reward, 1 <= k <= n."""
    k = check_k(k, check_rewards(rewards))
    level = _coefficients(coefficients, rewards, 1)
    return _above(rewards, level, k, stable_sort=stable_sort)


def fixed_ladder_weights(
    rewards: Tensor, k: int, *, alpha: tuple[float, ...], stable_sort: bool = True
) -> Tensor:
    """`ladder_weights` for fixed alpha_1 to alpha_K, whose sum is 1; 2 <= k < n. Unbiased."""
    n = check_rewards(rewards)
    k = check_k(k, n, low=2, below_n=True)
    if isinstance(alpha, str) or len(alpha) != k or not all(map(math.isfinite, alpha)):
        raise LabError(f"alpha must be k = {k} finite numbers, got {alpha!r}")
    if abs(math.fsum(alpha) - 1.0) > 1e-9:
        raise LabError(f"alpha must be numbers whose sum is 1, got {alpha!r}")
    coefficients = _on_device(tuple(alpha[:-1]), rewards.device)
    return _of_family("ladder", rewards, k, coefficients, stable_sort=stable_sort)


def fixed_constant_weights(
    rewards: Tensor, k: int, *, c: float, stable_sort: bool = True
) -> Tensor:
    """s_i - (K/n) c for a fixed number c in units of reward, 1 <= k <= n. Unbiased."""
    k = check_k(k, check_rewards(rewards))
    if isinstance(c, str) or not math.isfinite(c):
        raise LabError(f"c must be a finite number, got {c!r}")
    return _above(rewards, c, k, stable_sort=stable_sort)


def baseline_weights(
    rewards: Tensor, k: int, *, coefficients: Tensor, stable_sort: bool = True
) -> Tensor:
    """s_i - b_i with b = coefficients `[..., n]`, 1 <= k <= n and n >= 2.

    Unbiased where b_i does not depend on sample i.
    """
    n = check_rewards(rewards, least_n=2)
    score = derived.weigh(derived.score, rewards.double(), k, stable_sort=stable_sort)
    return (score - _coefficients(coefficients, rewards, n)).to(result_dtype(rewards))


@cached
def _on_device(alpha: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(alpha, dtype=torch.float64, device=device)


def _above(rewards: Tensor, level: Tensor | float, k: int, *, stable_sort: bool) -> Tensor:
    """The score weights s_i - (K/n) level of the rewards above `level`, `[..., 1]` or a number."""
    above = rewards.detach().double() - level
    score = derived.weigh(derived.score, above, k, stable_sort=stable_sort)
    return score.to(result_dtype(rewards))


def _of_family(
    family: str, rewards: Tensor, k: int, coefficients: Tensor, *, stable_sort: bool
) -> Tensor:
    start, directions = family_terms(rewards, k, family, stable_sort=stable_sort)
    own = _coefficients(coefficients, rewards, directions.shape[-1])
    return (start + (directions * own.unsqueeze(-2)).sum(-1)).to(result_dtype(rewards))


def _coefficients(coefficients: Tensor, rewards: Tensor, count: int) -> Tensor:
    """`coefficients` in float64.

    Raises `TypeError` for anything but a tensor and `ValueError` for a wrong shape.
    """
    if not isinstance(coefficients, Tensor):
        raise TypeError(f"coefficients must be a torch.Tensor, got {type(coefficients).__name__}")
    lead, wanted = list(coefficients.shape[:-1]), list(rewards.shape[:-1])
    padded = [1] * (len(wanted) - len(lead)) + lead
    fits = coefficients.dim() > 0 and coefficients.shape[-1] == count and len(padded) == len(wanted)
    fits = fits and all(own in (1, size) for own, size in zip(padded, wanted, strict=True))
    if not fits:
        raise LabError(
            f"coefficients must be [..., {count}] over the leading dimensions of rewards "
            f"{list(rewards.shape)}, "
            f"got shape {list(coefficients.shape)}"
        )
    return coefficients.detach().to(dtype=torch.float64)
