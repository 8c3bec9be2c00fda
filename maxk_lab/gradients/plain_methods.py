"""The plain unbiased method of an objective, whose mean estimate stands for the gradient."""

from __future__ import annotations

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective


def plain_method(objective: Objective, n: int, *, off_policy: bool = False) -> Method:
    """Return the unbiased method of an objective that every n and K have.

    Raises `ValueError` where trajectories of another policy have no unbiased estimator.
    """
    if off_policy and not objective.is_max:
        raise ValueError(
            f"{objective.name} under a behaviour policy needs the exact gradient to be judged "
            "against: only the expected maximum has an unbiased estimator with importance ratios"
        )
    by_form = "maxk" if objective.form == "max" else objective.form
    estimator = "off_policy_maxk" if off_policy else by_form
    return Method.parse(estimator, plain_baseline(n, objective.k), objective.k)


def plain_baseline(n: int, k: int) -> str:
    """Return the unbiased baseline that every n and K have."""
    return "centred" if k < n else "subloo"
