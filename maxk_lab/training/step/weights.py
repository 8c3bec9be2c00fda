"""The weights of a batch. Unusable samples of a group touch no sibling's baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.estimators import token_advantages
from maxk_lab.estimators.usable import usable_weights, weighted_by_size
from maxk_lab.training.refusals import Weighting


@dataclass(frozen=True)
class GroupWeights:
    """The weights of P groups, and the groups with too few samples left.

    weights: [P, n], or [P, n, T] at token level, 0 for samples left out; unusable: [P].
    """

    weights: Tensor
    unusable: Tensor


def group_weights(
    rewards: Tensor,
    usable: Tensor,
    weighting: Weighting,
    *,
    trajectory_weights: Mapping[str, Tensor] | None = None,
    ratios: Tensor | None = None,
    coefficients: Tensor | None = None,
    weight_normalization: str = "none",
    min_gap_scale: float | None = None,
) -> GroupWeights:
    """Return the weights of P groups of n samples.

    rewards, usable, ratios and every trajectory weight are [P, n]. `coefficients` [P, D] are those
    of a baseline that has fitted ones (see `training.step.fitted`). What becomes of samples that
    are not usable, `usable_weights` says.
    """
    weights, unusable = usable_weights(
        weighting.method,
        rewards,
        usable,
        trajectory_weights=trajectory_weights,
        ratios=ratios,
        coefficients=coefficients,
        weight_normalization=weight_normalization,
        min_gap_scale=min_gap_scale,
    )
    return GroupWeights(weights, unusable)


def token_weights(
    rewards: Tensor, usable: Tensor, weighting: Weighting, logit_proxies: Tensor, mask: Tensor
) -> GroupWeights:
    """Return one weight per token, [P, n, T], of a token-level baseline.

    logit_proxies and mask are [P, n, T]; all else is as in `group_weights`.
    """

    def weigh(rows: Tensor, columns: Tensor) -> Tensor:
        at = rows.unsqueeze(1), columns
        return token_advantages(rewards[at], logit_proxies[at], mask[at])

    start = torch.zeros(mask.shape, dtype=rewards.dtype)
    return GroupWeights(*weighted_by_size(usable, weighting.refusal, start, weigh))


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
