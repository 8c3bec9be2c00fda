"""The weights of groups in which some samples are unusable: these touch no sibling's baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from maxk_lab.estimators.method import Method


def usable_weights(
    method: Method,
    rewards: Tensor,
    usable: Tensor,
    *,
    trajectory_weights: Mapping[str, Tensor] | None = None,
    ratios: Tensor | None = None,
    coefficients: Tensor | None = None,
    weight_normalization: str = "none",
    min_gap_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the weights of P groups of n samples, [P, n], and which groups have none, [P].

    rewards, usable, ratios and every trajectory weight are [P, n], `coefficients` [P, D].

    Of each group, the m usable samples are weighted as a group of m (their weights carry 1/m), so
    that the others enter no baseline; the others' weights are 0, and so are all weights of a group
    whose m the pair (or `zscore`: m = 1) refuses. With `centred`, whose weights sum to 0, the
    estimate is then unbiased for J_K *among usable trajectories*; with others there is also a pull
    towards being usable, of the size of the sum.
    """

    def weigh(rows: Tensor, columns: Tensor) -> Tensor:
        at = rows.unsqueeze(1), columns
        return method.weights(
            rewards[at],
            trajectory_weights={name: g[at] for name, g in (trajectory_weights or {}).items()},
            ratios=None if ratios is None else ratios[at],
            coefficients=None if coefficients is None else coefficients[rows],
            weight_normalization=weight_normalization,
            min_gap_scale=min_gap_scale,
        )

    least = 2 if weight_normalization == "zscore" else 1
    return weighted_by_size(usable, method.refusal, torch.zeros_like(rewards), weigh, least=least)


def groups_by_size(
    usable: Tensor, refusal: Callable[[int], str | None], *, least: int = 1
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (rows, columns) of the groups with m usable samples, for every m that is not refused.

    columns [rows, m] are the usable samples of these groups.
    """
    sizes = usable.sum(1)
    for size in sorted(set(sizes.tolist())):
        if size < least or refusal(size) is not None:
            continue
        rows = (sizes == size).nonzero().squeeze(1)
        yield rows, (~usable[rows]).long().argsort(dim=1, stable=True)[:, :size]


def weighted_by_size(
    usable: Tensor,
    refusal: Callable[[int], str | None],
    weights: Tensor,
    weigh: Callable[[Tensor, Tensor], Tensor],
    *,
    least: int = 1,
) -> tuple[Tensor, Tensor]:
    """Put into `weights` what `weigh(rows, columns)` gives to groups of equal size.

    Returns them, and which groups were refused, [P].
    """
    unusable = torch.ones(len(usable), dtype=torch.bool, device=usable.device)
    for rows, columns in groups_by_size(usable, refusal, least=least):
        unusable[rows] = False
        weights[rows.unsqueeze(1), columns] = weigh(rows, columns).to(weights)
    return weights, unusable
