"""Off-policy score weights over r_i (K/n), less a baseline, exact at any spread of the ratios.

All take rewards x and ratios r `[groups, n]` by rank, and give `[groups, n]` up to
`ratio_sums.normalizer`. Those of `centred` are two sums that are alike at ratios near one, a
difference of which would lose all digits there. A reward taken off both would lose them where
ratios are far apart. So the difference is taken pair by pair: with T a K-subset of the others and j
in T, the own sample i takes the place of j,

    max(x_i, T - j) - r_j max(T) = min(r_j, 1) (max(x_i, T - j) - max(T))
                                   + (1 - r_j)^+ max(x_i, T - j) - (r_j - 1)^+ max(T),

each times the product of the ratios of T - j. No part is greater than what it is a part of. The
first is made of gaps between rewards, blind to a constant; the others vanish at ratios of one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators.methods import ratio_sums


def with_each(x: Tensor, r: Tensor, k: int) -> Tensor:
    """The sum over K-1 others of (product of ratios) (max of x with the own one)."""
    p = k / x.shape[-1]
    products = ratio_sums.products(r, k - 1, p)
    return x * ratio_sums.below(products, k - 1, p) + ratio_sums.meet(
        products, ratio_sums.maxima(x, r, k - 1, p), k - 1
    )


def subloo(x: Tensor, r: Tensor, k: int) -> Tensor:
    """The sum over K-1 worse others of (product of ratios) (own x - max of theirs).

    It is a cumulative sum over the gaps.
    """
    n, p = x.shape[-1], k / x.shape[-1]
    products = ratio_sums.products(r, k - 1, p)[1:-1, ..., k - 1].movedim(0, -1)
    steps = x.diff(dim=-1) * products * ratio_sums.left(n - 1, p, x.device)
    return ratio_sums.of_lower_ranks(steps)


def centred(x: Tensor, r: Tensor, k: int) -> Tensor:
    """The sum over K-1 others of (product of ratios) (max of x with the own one), less that of K.

    The latter, over K others, is without the own one. x and r are `[groups, n]`, by rank, K < n.
    """
    p = k / x.shape[-1]
    common, short, over = r.clamp(max=1.0), (1 - r).clamp(min=0.0), (r - 1).clamp(min=0.0)
    products = ratio_sums.products(r, k, p)
    by_common, by_short, by_over = ratio_sums.marked(
        torch.stack([common, short, over]), r, products, p
    )
    alone = ratio_sums.one_behind(short, p)
    own_best = x * (
        ratio_sums.below(by_short, k, p) + products[:-1, ..., k - 1].movedim(0, -1) * alone
    )
    worse_best = p * x * over * ratio_sums.below(products, k - 1, p)
    worse_best = worse_best + p * x * r * ratio_sums.below(by_over, k - 1, p)
    maxima = ratio_sums.maxima(x, r, k, p)
    better_best = ratio_sums.meet(by_short - by_over, maxima, k)
    better_best = better_best + ratio_sums.meet(
        products, _marked_maxima(x, r, over, alone, maxima, p), k
    )
    moved = _moved_maxima(x, r, k, common, by_common, products)
    unequal = own_best + better_best - ratio_sums.of_lower_ranks(worse_best[..., :-1]) / (1 - p)
    return (moved + unequal) / k


def _marked_maxima(
    x: Tensor, r: Tensor, over: Tensor, alone: Tensor, maxima: Tensor, p: float
) -> Tensor:
    """The sum over the m-subsets T of the samples from i on, and over j in T.

    It is of (1 - r_j)^+ max(T - j) less (r_j - 1)^+ max(T), times the ratios of T - j; where T is j
    alone there is no max(T - j).
    """
    source = torch.zeros_like(maxima[1:])
    source[..., 1:] = p * (1 - r).movedim(-1, 0).unsqueeze(-1) * maxima[1:, ..., :-1]
    behind = ratio_sums.left(x.shape[-1], p, x.device)
    source[..., 1] -= (p * over * x * behind).movedim(-1, 0)
    if maxima.shape[-1] > 2:
        source[..., 2] += (p * r * x * alone).movedim(-1, 0)
    return ratio_sums.from_behind(r, source, p)


def _moved_maxima(
    x: Tensor, r: Tensor, k: int, common: Tensor, by_common: Tensor, products: Tensor
) -> Tensor:
    """The sum over T and j of min(r_j, 1) (max(x_i, T - j) - max(T)), times the ratios of T - j.

    A gap between rewards raises it where i is above the gap and all of T below, and lowers it where
    j is the only one above.
    """
    n, p = x.shape[-1], k / x.shape[-1]
    gaps = x.diff(dim=-1)
    below_gap = by_common[1:-1, ..., k].movedim(0, -1) * ratio_sums.left(n - 1, p, x.device)
    source = x.new_zeros(n, *x.shape[:-1], k)
    source[1:, ..., 0] = (gaps * ratio_sums.one_behind(common, p)[..., :-1]).movedim(-1, 0)
    lowered = ratio_sums.meet(products, ratio_sums.from_behind(r, source, p), k - 1)
    return ratio_sums.of_lower_ranks(gaps * below_gap) - lowered
