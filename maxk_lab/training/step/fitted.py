"""The coefficients of a batch's baselines, by least squares on the Gram products of its scores."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators.baselines.least_squares import Equations, normal_equations
from maxk_lab.estimators.baselines.linear_families import coefficient_count, family_terms
from maxk_lab.estimators.usable import groups_by_size
from maxk_lab.training.refusals import Weighting


def fitted_coefficients(
    rewards: Tensor, usable: Tensor, weighting: Weighting, grams: Tensor
) -> Tensor:
    """Return the coefficients of every group's baseline: [P, D] float64.

    They follow from the usable samples of rewards [P, n] and grams [P, n, n]. `cross_fit` takes
    them from all *other* groups of the batch, which leaves the estimate unbiased, `same_batch` from
    the group itself, which biases it. Groups that the pair cannot weight count for nothing; where
    nothing is left the coefficients are 0.
    """
    method = weighting.method
    family, k = method.baseline.row.name, method.k
    count = coefficient_count(family, k)
    a = torch.zeros(len(rewards), count, count, dtype=torch.float64)
    c = torch.zeros(len(rewards), count, dtype=torch.float64)
    for rows, columns in groups_by_size(usable, weighting.refusal):
        of = rows.unsqueeze(1)
        start, directions = family_terms(rewards[of, columns], k, family)
        own = grams[of.unsqueeze(2), columns.unsqueeze(2), columns.unsqueeze(1)]
        a[rows], c[rows] = normal_equations(start, directions, own)
    found = Equations(a, c)
    if method.fit == "cross_fit":
        found = found.of_others()
    return found.solution()
