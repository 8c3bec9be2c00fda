"""Exact J_K and ∇J_K of a policy whose trajectories are all listed, without sampling.

Index: A trajectories.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.value import distribution_value

# The largest accepted deviation of Σ p from one.
TOTAL_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}


def exact_value(probabilities: Tensor, rewards: Tensor, objective: Objective | int) -> Tensor:
    """Return J of an objective (int K: max@K) by probabilities [A], differentiable, and rewards."""
    parsed = Objective("max", objective) if isinstance(objective, int) else objective
    return distribution_value(probabilities, rewards, parsed)


def exact_gradient_weights(
    probabilities: Tensor, rewards: Tensor, objective: Objective | int
) -> Tensor:
    """Return the weights c [A] with ∇J = Σ_a c_a ψ_a: c_a = p_a ∂J/∂p_a, up to a multiple of p."""
    leaf = probabilities.detach().double().requires_grad_()
    (slope,) = torch.autograd.grad(
        exact_value(leaf, rewards.double() - rewards.double().max(), objective), leaf
    )
    return leaf.detach() * slope


def checked_probabilities(log_probs: Tensor) -> Tensor:
    """Return exp(log_probs) [A] in float64.

    Raises `LabError` if the probabilities do not sum to one.
    """
    probabilities = log_probs.detach().double().exp()
    total = float(probabilities.sum())
    if not abs(total - 1.0) <= TOTAL_TOLERANCE[log_probs.dtype]:
        raise LabError(
            f"the probabilities of all trajectories, exp of the environment's log_probs, sum to "
            f"{total:.6g} and not to 1: log_probs must be the logarithm of the probability that "
            "rollout draws a trajectory with, summed over its decisions and normalised at each; "
            "or the list of all trajectories lacks some or has some twice"
        )
    return probabilities
