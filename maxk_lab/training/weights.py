"""The weights of a batch of groups. Unusable samples of a group touch no sibling's baseline."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators import token_advantages
from maxk_lab.estimators.baselines.least_squares import Equations, family_terms, normal_equations
from maxk_lab.estimators.usable import groups_by_size, weighted_by_size
from maxk_lab.training.refusals import Weighting


def token_weights(
    rewards: Tensor, usable: Tensor, weighting: Weighting, logit_proxies: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Return one weight per token, [P, n, T], of a token-level baseline, and the groups without.

    rewards and usable are [P, n], logit_proxies and mask [P, n, T], the groups without weights
    [P]; all else is as in `usable_weights`, which gives one per trajectory.
    """

    def weigh(rows: Tensor, columns: Tensor) -> Tensor:
        at = rows.unsqueeze(1), columns
        return token_advantages(rewards[at], logit_proxies[at], mask[at])

    start = torch.zeros(mask.shape, dtype=rewards.dtype)
    return weighted_by_size(usable, weighting.refusal, start, weigh)


def fitted_coefficients(
    rewards: Tensor, usable: Tensor, weighting: Weighting, grams: Tensor
) -> Tensor:
    """Return the coefficients of every group's baseline, by least squares: [P, D] float64.

    They follow from the usable samples of rewards [P, n] and the Gram products [P, n, n] of their
    scores. `cross_fit` takes them from all *other* groups of the batch, which leaves the estimate
    unbiased, `same_batch` from the group itself, which biases it. Groups that the pair cannot
    weight count for nothing; where nothing is left the coefficients are 0.
    """
    method = weighting.method
    family, k = method.baseline.row.name, method.k
    count = method.baseline.row.coefficients(rewards.shape[1], k)
    a = torch.zeros(len(rewards), count, count, dtype=torch.float64)
    c = torch.zeros(len(rewards), count, dtype=torch.float64)
    for rows, columns in groups_by_size(usable, weighting.refusal):
        of = rows.unsqueeze(1)
        start, directions = family_terms(rewards[of, columns], k, family)
        products = grams[of.unsqueeze(2), columns.unsqueeze(2), columns.unsqueeze(1)]
        a[rows], c[rows] = normal_equations(start, directions, products)
    equations = Equations(a, c)
    return (equations.of_others() if method.fit == "cross_fit" else equations).solution()


def normalized(weights: Tensor, counted: Tensor, n: int) -> Tensor:
    """Return the weights w with advantages A = n w standardised over the batch.

    A becomes (A − mean) / (std + 1e-4), ddof 1. `counted`, of the shape of `weights`, says which
    entries are advantages at all; the others stay as they are. Fewer than two have no spread and
    stay, too. This is biased: the scale of the whole batch enters each weight.
    """
    values = n * weights[counted]
    if len(values) < 2:
        return weights
    result = weights.clone()
    result[counted] = (values - values.mean()) / (values.std() + 1e-4) / n
    return result
