"""The weights of a batch. Unusable samples of a group touch no sibling's baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.estimators import token_advantages
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
    of a baseline that has fitted ones (see `training.step.fitted`).

    Of each group, the m usable samples are weighted as a group of m (their weights carry 1/m), so
    that the others enter no baseline; the others' weights are 0, and so are all weights of a group
    whose m the pair (or `zscore`: m = 1) refuses. With `centred`, whose weights sum to 0, the
    estimate is then unbiased for J_K *among usable trajectories*; with others there is also a pull
    towards being usable, of the size of the sum.
    """

    def weigh(rows: Tensor, columns: Tensor) -> Tensor:
        at = rows.unsqueeze(1), columns
        chosen = {name: g[at] for name, g in (trajectory_weights or {}).items()}
        return weighting.method.weights(
            rewards[at],
            trajectory_weights=chosen,
            ratios=None if ratios is None else ratios[at],
            coefficients=None if coefficients is None else coefficients[rows],
            weight_normalization=weight_normalization,
            min_gap_scale=min_gap_scale,
        )

    least = 2 if weight_normalization == "zscore" else 1
    return _by_size(usable, weighting, torch.zeros_like(rewards), weigh, least=least)


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
    return _by_size(usable, weighting, start, weigh)


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


def groups_by_size(
    usable: Tensor, weighting: Weighting, *, least: int = 1
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (rows, columns) of the groups with m usable samples, for every m the pair can weight.

    columns [rows, m] are the usable samples of these groups.
    """
    sizes = usable.sum(1)
    for size in sorted(set(sizes.tolist())):
        if size < least or weighting.refusal(size) is not None:
            continue
        rows = (sizes == size).nonzero().squeeze(1)
        yield rows, (~usable[rows]).long().argsort(dim=1, stable=True)[:, :size]


def _by_size(
    usable: Tensor,
    weighting: Weighting,
    weights: Tensor,
    weigh: Callable[[Tensor, Tensor], Tensor],
    *,
    least: int = 1,
) -> GroupWeights:
    """Return the weights that `weigh(rows, columns)` gives to groups of equal size."""
    unusable = torch.ones(len(usable), dtype=torch.bool)
    for rows, columns in groups_by_size(usable, weighting, least=least):
        unusable[rows] = False
        weights[rows.unsqueeze(1), columns] = weigh(rows, columns).to(weights)
    return GroupWeights(weights, unusable)
