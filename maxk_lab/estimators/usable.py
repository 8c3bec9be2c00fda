"""The weights of groups in which some samples are unusable: these touch no sibling's baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.method import Method


def usable_weights(
    method: Method,
    rewards: Tensor,
    usable: Tensor,
    *,
    weight_normalization: str = "none",
    min_gap_scale: float | None = None,
    **numbers: Any,
) -> tuple[Tensor, Tensor]:
    """Return the weights of groups of n samples, `[..., n]`, and which groups have none, `[...]`.

    rewards and usable are `[..., n]`; `numbers` and the two options are those of `Method.weights`.

    Of each group, the m usable samples are weighted as a group of m (their weights carry 1/m), so
    that the others enter no baseline; the others' weights are 0, and so are all weights of a group
    whose m the pair (or `zscore`: m = 1) refuses. With `centred`, whose weights sum to 0, the
    estimate is then unbiased for J_K *among usable trajectories*; with others there is also a pull
    towards being usable, of the size of the sum.
    """

    def groups(values: Tensor) -> Tensor:
        size = values.shape[-1]
        return values.expand(*rewards.shape[:-1], size).reshape(-1, size)

    def weigh(rows: Tensor, columns: Tensor) -> Tensor:
        def part(name: str, values: Any) -> Any:
            if isinstance(values, Mapping):
                return {kind: part(name, g) for kind, g in values.items()}
            if values is None:
                return None
            return groups(values)[rows if name == "coefficients" else (rows.unsqueeze(1), columns)]

        return method.weights(
            part("rewards", rewards),
            weight_normalization=weight_normalization,
            min_gap_scale=min_gap_scale,
            **{name: part(name, values) for name, values in numbers.items()},
        )

    least, start = 2 if weight_normalization == "zscore" else 1, groups(torch.zeros_like(rewards))
    weights, unusable = weighted_by_size(groups(usable), method.refusal, start, weigh, least=least)
    return weights.view(rewards.shape), unusable.view(rewards.shape[:-1])


def groups_by_size(
    usable: Tensor, refusal: Callable[[int], str | None], *, least: int = 1
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (rows, columns) of the groups with m usable samples, for every m that is not refused.

    usable is `[P, n]`; columns `[rows, m]` are the usable samples of these groups.
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

    Returns them, and which groups were refused, `[P]`.
    """
    unusable = torch.ones(len(usable), dtype=torch.bool, device=usable.device)
    for rows, columns in groups_by_size(usable, refusal, least=least):
        unusable[rows] = False
        weights[rows.unsqueeze(1), columns] = weigh(rows, columns).to(weights)
    return weights, unusable
