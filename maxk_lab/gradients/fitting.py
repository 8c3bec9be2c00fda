"""Fitted coefficients of baselines: from other instances, or exactly.

A baseline's weights are w0 + D α with directions D, so the mean ‖ĝ‖² over groups is a quadratic
form in α. Because α does not change E ĝ, its minimum is the minimum of the variance. If α comes
from *other* instances (cross_fit) or from the policy itself (oracle), it does not depend on the
group, and the estimate stays unbiased.

Index: I instances, D coefficients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.least_squares import Equations, family_terms
from maxk_lab.gradients.enumerated.moments import Outcomes


def oracle_coefficients(outcomes: Outcomes, n: int, k: int, baseline: str) -> Tensor:
    """Return the coefficients of lowest variance under the policy itself: [D].

    They solve the normal equations over every group of n. `baseline` is affine, ladder or constant.
    Raises `LabError` for trajectories of another policy, because they would bias the estimate.
    """
    check_on_policy(outcomes)
    classes, total = outcomes.classes, torch.zeros(())
    for rows, chance in classes.groups(n):
        w0, directions = family_terms(classes.rewards[rows], k, baseline)
        terms = torch.cat([directions, w0.unsqueeze(-1)], -1)
        # Given the classes, the scores are independent, each with the spread of its class.
        pairs = classes.products[rows.unsqueeze(2), rows.unsqueeze(1)] + torch.diag_embed(
            classes.spread[rows]
        )
        total = total + ((terms.mT * chance.view(-1, 1, 1)) @ pairs @ terms).sum(0)
    return Equations.from_products(total[:-1]).solution()


def fit_on_others(equations: Equations) -> Tensor:
    """Return the coefficients [I, D] for each instance from the equations [I, ...] of all others.

    Raises `ValueError` for fewer than two instances.
    """
    instances, directions = len(equations.a), equations.c.shape[-1]
    if instances < 2:
        raise ValueError(
            "a cross-fit takes its coefficients from the other instances: "
            f"it needs at least 2, got {instances}"
        )
    a = equations.a.reshape(instances, -1, directions, directions).sum(1)
    c = equations.c.reshape(instances, -1, directions).sum(1)
    return Equations(a, c).leave_one_out().solution()


def check_on_policy(outcomes: Outcomes) -> None:
    """Raise `LabError` if another policy draws the trajectories."""
    if outcomes.behaviour is not None:
        raise LabError(
            "the oracle's baseline is that of trajectories of the policy itself: leave out "
            "gradient.behaviour"
        )
