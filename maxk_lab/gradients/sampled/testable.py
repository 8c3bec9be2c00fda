"""The size of pool from which on the gradient of an instance can be tested for a bias."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.statistics.units import Array

# Trajectories that must be expected to carry the gradient, effectively, for a test of its estimate:
# with 16, a few draws fewer make the mean and its error small together, and 5 of 12 reports on a
# trained toy LLM called an unbiased estimator biased; with 64 none.
LEAST_CARRYING = 64.0
# A smaller share stands for none at all: the pool that it would take is beyond any number of draws.
_LEAST_SHARE = 1e-60


def pool_to_test(pool: ScorePool, wanted: Objective) -> Array:
    """The least pool [I] in which so many trajectories are expected to carry the gradient.

    For pools whose trajectories are all listed. With s_a = |p_a (f_a − E f)| ‖ψ_a‖, the length that
    trajectory a adds to ∇J = Σ_a p_a (f_a − E f) ψ_a, and b_a the chance of drawing it, M draws
    have effectively M (Σ s)² / Σ s²/b that carry it (Kish): about M b_a where one trajectory is
    all, M where all have alike shares. It follows from the policy alone: instances are not chosen
    by what was drawn of them. Infinite where the gradient is 0.
    """
    lengths = pool.squared_norms().clamp(min=0).sqrt()
    rows = zip(pool.probabilities, pool.listed_rewards, pool.behaviour, lengths, strict=True)
    return np.array([LEAST_CARRYING / _share(*row, wanted) for row in rows])


def _share(
    probabilities: Tensor, rewards: Tensor, behaviour: Tensor, lengths: Tensor, wanted: Objective
) -> float:
    """How many draws effectively carry the gradient, by draw: from 0, as `_LEAST_SHARE`, to 1."""
    possible = (probabilities > 0) & (behaviour > 0)
    p, chance = probabilities[possible], behaviour[possible]
    weights = exact_gradient_weights(p, rewards[possible], wanted)
    size = (weights - p * weights.sum()).abs() * lengths[possible]
    squares = float((size.square() / chance).sum())
    return max(float(size.sum()) ** 2 / squares, _LEAST_SHARE) if squares > 0 else _LEAST_SHARE
