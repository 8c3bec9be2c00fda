"""The plain unbiased method of an objective, the reference for biased methods."""

from __future__ import annotations

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective


def plain_method(objective: Objective, n: int, *, off_policy: bool = False) -> Method:
    """Return the unbiased method that runs at any n and K of an objective.

    Raises `ValueError` if no estimator is unbiased for trajectories of another policy.
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
    """Return the unbiased baseline that runs at any n and K."""
    return "centred" if k < n else "subloo" if k > 1 else "none"
