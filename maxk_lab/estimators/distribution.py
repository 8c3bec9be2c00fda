"""The exact value of an objective for a reward that takes finitely many values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.objectives import Objective


def distribution_value(probabilities: Tensor, rewards: Tensor, objective: Objective) -> Tensor:
    """J = Σ_j R_(j) (H(F_j) − H(F_{j−1})), a scalar, of probabilities [A] and rewards [A].

    Differentiable in the probabilities.

    F_j is the probability of the j lowest rewards and H(F) = Σ_j α_j P(Bin(K, F) ≥ j) the weight
    that the objective gives to the rewards up to there: F^K for the maximum of K.
    """
    rewards = rewards.to(probabilities)
    order = rewards.argsort(stable=True)
    top = rewards.max()
    mass = probabilities[order].cumsum(0)
    reached = mass**objective.k if objective.is_max else order_weight(mass, objective)
    steps = torch.diff(reached, prepend=reached.new_zeros(1))
    # Measured from the top reward so that no precision is lost to an offset.
    return ((rewards[order] - top) * steps).sum() + top * reached[-1]


def order_weight(mass: Tensor, objective: Objective) -> Tensor:
    """H(F) of mass F [...] in [0, 1] → [...], differentiable once."""
    weights = torch.tensor(objective.order_weights, dtype=torch.float64, device=mass.device)
    result: Tensor = _OrderWeight.apply(mass, weights)  # type: ignore[no-untyped-call]
    return result


class _OrderWeight(torch.autograd.Function):
    """H as a Bernstein polynomial of degree K, and H' as one of degree K − 1.

    The coefficients of H are the partial sums of α.
    """

    @staticmethod
    def forward(ctx: Any, mass: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(mass, weights)
        partial_sums = torch.cat([weights.new_zeros(1), weights.cumsum(0)])
        return _bernstein(mass, partial_sums)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        mass, weights = ctx.saved_tensors
        return gradient * len(weights) * _bernstein(mass, weights), None


def _bernstein(mass: Tensor, coefficients: Tensor) -> Tensor:
    """Σ_m c_m C(d, m) F^m (1 − F)^(d−m), d = len(c) − 1.

    Through logarithms, so that no binomial overflows.
    """
    degree = len(coefficients) - 1
    m = torch.arange(degree + 1, dtype=torch.float64, device=mass.device)
    chosen = (
        torch.tensor(degree + 1.0, dtype=torch.float64).lgamma()
        - (m + 1).lgamma()
        - (degree - m + 1).lgamma()
    )
    # Sums of probabilities leave [0, 1] by rounding.
    share = mass.double().clamp(0.0, 1.0).unsqueeze(-1)
    terms = chosen + torch.special.xlogy(m, share) + torch.special.xlog1py(degree - m, -share)
    values: Tensor = terms.exp() @ coefficients
    return values.to(mass)
