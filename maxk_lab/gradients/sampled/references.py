"""References that an estimate is judged against, and instances on which a bias can be tested."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights
from maxk_lab.gradients.enumerated.oracle import plain_baseline
from maxk_lab.gradients.scores.pool import Listing, ScorePool
from maxk_lab.statistics.units import Array

# Trajectories that must be expected to carry the gradient, effectively, for a test of its estimate:
# with 16, a few draws fewer make the mean and its error small together, and 5 of 12 reports on a
# trained toy LLM called an unbiased estimator biased; with 64 none.
LEAST_CARRYING = 64.0
# A smaller share stands for none at all: the pool that it would take is beyond any number of draws.
_LEAST_SHARE = 1e-60


def reference_method(wanted: Objective, n: int, *, off_policy: bool) -> Method:
    """The unbiased method whose mean stands for the gradient of an objective that is not known.

    Raises `ValueError` where trajectories of another policy have no unbiased estimator.
    """
    if not off_policy:
        estimator = "maxk" if wanted.form == "max" else wanted.form
    elif wanted.is_max:
        estimator = "off_policy_maxk"
    else:
        raise ValueError(
            f"{wanted.name} under a behaviour policy needs the exact gradient to be judged "
            "against: only the expected maximum has an unbiased estimator with importance "
            "ratios"
        )
    return Method.parse(estimator, plain_baseline(n, wanted.k), wanted.k)


def control_methods(wanted: Objective, n: int, *, off_policy: bool) -> list[Method]:
    """The methods, unbiased by proof, in which a bias can only be a badly drawn instance."""
    if off_policy and not wanted.is_max:
        return []
    estimator = reference_method(wanted, n, off_policy=off_policy).estimator.name
    controls = [Method.parse(estimator, baseline, wanted.k) for baseline in ("centred", "subloo")]
    return [control for control in controls if control.refusal(n) is None]


def reference_name(method: Method) -> str:
    """The name in records: the baseline, for methods with ratios the estimator, too."""
    estimator, baseline = method.estimator.name, method.baseline.name
    return f"{estimator} with {baseline}" if method.needs_ratios else baseline


def pool_to_test(pool: ScorePool, wanted: Objective) -> Array:
    """The least pool [I] in which so many trajectories are expected to carry the gradient.

    For pools whose trajectories are all listed. With s_a = |p_a (f_a − E f)| ‖ψ_a‖, the length that
    trajectory a adds to ∇J = Σ_a p_a (f_a − E f) ψ_a, and b_a the chance of drawing it, M draws
    have effectively M (Σ s)² / Σ s²/b that carry it (Kish): about M b_a where one trajectory is
    all, M where all have alike shares. It follows from the policy alone: instances are not chosen
    by what was drawn of them. Infinite where the gradient is 0.
    """
    return np.array(
        [
            LEAST_CARRYING / carrying_share(part.listed, part.squared_norms, wanted)
            for part in pool.parts
            if part.listed is not None
        ]
    )


def carrying_share(listed: Listing, squared_norms: Tensor, wanted: Objective) -> float:
    """How many draws effectively carry the gradient, by draw: from 0, as `_LEAST_SHARE`, to 1."""
    possible = (listed.probabilities > 0) & (listed.behaviour > 0)
    p, chance = listed.probabilities[possible], listed.behaviour[possible]
    weights = exact_gradient_weights(p, listed.rewards[possible], wanted)
    lengths = squared_norms[possible].clamp(min=0).sqrt()
    size = (weights - p * weights.sum()).abs() * lengths
    squares = float((size.square() / chance).sum())
    return max(float(size.sum()) ** 2 / squares, _LEAST_SHARE) if squares > 0 else _LEAST_SHARE
