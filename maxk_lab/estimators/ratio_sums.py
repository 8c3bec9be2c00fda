"""Sums over all subsets of samples of the products of their importance ratios, without division.

The sums are built sample by sample, in the order of the rewards. Each sample is taken with
probability p = K/n, else left. At ratios of one, the entries are then probabilities of a binomial,
in range for every n and K. Dividing by `normalizer` removes these factors.

Ranks are ascending: `x[..., -1]` is the best. A table t `[n+1, ..., K+1]` has at `t[j, ..., m]` the
sum over the m-subsets of the first j samples (`before`), or of the samples from j on (`behind`).

`none`, `subloo` and `centred` return the score weights minus the baseline with the function's name,
divided by r_i (K/n). They are exact for any ratios. Arguments are rewards x and ratios r `[groups,
n]` by rank; results are `[groups, n]`, still multiplied by `normalizer`. `off_policy_maxk` applies
the factor r_i (K/n) and the normalizer.

`centred` is a difference of two sums, which are nearly equal at ratios near one: subtracting the
sums would lose all digits there. Subtracting a reward from both would lose digits at ratios far
apart. So the difference is taken for each pair. With T a K-subset of the other samples and j in T,
sample i replaces j:

    max(x_i, T - j) - r_j max(T) = min(r_j, 1) (max(x_i, T - j) - max(T))
                                   + (1 - r_j)^+ max(x_i, T - j) - (r_j - 1)^+ max(T),

each times the product of the ratios of T - j. No term is larger than the two maxima. The first term
is made of gaps between rewards, so a constant cancels exactly. The other terms vanish at ratios of
one.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def none(x: Tensor, r: Tensor, k: int) -> Tensor:
    """Return the sum over K-1 others of (product of ratios) (max of x with sample i)."""
    p = k / x.shape[-1]
    before = products(r, k - 1, p)
    return x * below(before, k - 1, p) + _meet(before, _maxima(x, r, k - 1, p), k - 1)


def subloo(x: Tensor, r: Tensor, k: int) -> Tensor:
    """Return the sum over K-1 worse others of (product of ratios) (x_i - their max), by gaps."""
    n, p = x.shape[-1], k / x.shape[-1]
    before = products(r, k - 1, p)[1:-1, ..., k - 1].movedim(0, -1)
    return _sum_lower_ranks(x.diff(dim=-1) * before * _none_above(n - 1, p, x.device))


def centred(x: Tensor, r: Tensor, k: int) -> Tensor:
    """Return the sum of `none` minus the sum over K others without sample i, K < n."""
    n, p = x.shape[-1], k / x.shape[-1]
    common, short, over = r.clamp(max=1.0), (1 - r).clamp(min=0.0), (r - 1).clamp(min=0.0)
    before = products(r, k, p)
    # Sums over the m-subsets of the first j samples of sum_i marks_i (product of the other ratios).
    marks = torch.stack([common, short, over])
    source = before.new_zeros(n, *marks.shape[:-1], k + 1)
    source[..., 1:] = p * marks.movedim(-1, 0).unsqueeze(-1) * before[:-1, None, ..., :-1]
    by_common, by_short, by_over = _recurrence(r.expand_as(marks), source, k, p).movedim(1, 0)
    alone = _one_behind(short, p)
    own_best = x * (below(by_short, k, p) + before[:-1, ..., k - 1].movedim(0, -1) * alone)
    worse_best = p * x * over * below(before, k - 1, p)
    worse_best = worse_best + p * x * r * below(by_over, k - 1, p)
    maxima = _maxima(x, r, k, p)
    better_best = _meet(by_short - by_over, maxima, k)
    better_best = better_best + _meet(before, _marked_maxima(x, r, over, alone, maxima, p), k)
    unequal = own_best + better_best - _sum_lower_ranks(worse_best[..., :-1]) / (1 - p)
    # The sum over T and j of min(r_j, 1) (max(x_i, T - j) - max(T)). A gap between rewards raises
    # it if i is above the gap and all of T is below. A gap lowers it if j is the only sample above.
    gaps = x.diff(dim=-1)
    below_gap = by_common[1:-1, ..., k].movedim(0, -1) * _none_above(n - 1, p, x.device)
    source = x.new_zeros(n, *x.shape[:-1], k)
    source[1:, ..., 0] = (gaps * _one_behind(common, p)[..., :-1]).movedim(-1, 0)
    lowered = _meet(before, _from_behind(r, source, p), k - 1)
    # Every T was counted K times, once for each j in T.
    return (_sum_lower_ranks(gaps * below_gap) - lowered + unequal) / k


def _marked_maxima(
    x: Tensor, r: Tensor, over: Tensor, alone: Tensor, maxima: Tensor, p: float
) -> Tensor:
    """Return a sum over the m-subsets T of the samples from i on, and over j in T.

    The summand is (1 - r_j)^+ max(T - j) minus (r_j - 1)^+ max(T), times the ratios of T - j. If T
    contains j alone, the term with max(T - j) is omitted.
    """
    source = torch.zeros_like(maxima[1:])
    source[..., 1:] = p * (1 - r).movedim(-1, 0).unsqueeze(-1) * maxima[1:, ..., :-1]
    source[..., 1] -= (p * over * x * _none_above(x.shape[-1], p, x.device)).movedim(-1, 0)
    if maxima.shape[-1] > 2:
        source[..., 2] += (p * r * x * alone).movedim(-1, 0)
    return _from_behind(r, source, p)


def products(r: Tensor, k: int, p: float) -> Tensor:
    """Return the product sums over m-subsets of the first j samples, `[n+1, ..., K+1]`."""
    return _recurrence(r, None, k, p)


def below(before: Tensor, m: int, p: float) -> Tensor:
    """Return the sum over m worse others of the product of ratios, no better ones, `[..., n]`."""
    n = len(before) - 1
    return before[:-1, ..., m].movedim(0, -1) * _none_above(n, p, before.device)


@lru_cache(maxsize=64)
def normalizer(n: int, k: int) -> float:
    """Return C(n,K) p^K (1-p)^(n-K) by the same recurrence, so that the rounding is equal."""
    ones = torch.ones(n, dtype=torch.float64)
    return float(products(ones, k, k / n)[-1, k])


def _recurrence(r: Tensor, source: Tensor | None, k: int, p: float) -> Tensor:
    """Return tables t_j, j = 0..n, `[n+1, ..., K+1]`, of r `[..., n]` and source `[n, ..., K+1]`.

    t_{j+1}[m] = (1-p) t_j[m] + p r_j t_j[m-1] + source_j[m], t_0 = 0; without source 1 at m = 0.
    """
    n = r.shape[-1]
    tables = r.new_zeros(n + 1, *r.shape[:-1], k + 1)
    if source is None:
        tables[0, ..., 0] = 1.0
    factors = (p * r).movedim(-1, 0).unsqueeze(-1)
    for j, factor in enumerate(factors):
        torch.mul(tables[j], 1 - p, out=tables[j + 1])
        tables[j + 1, ..., 1:].addcmul_(tables[j, ..., :-1], factor)
        if source is not None:
            tables[j + 1].add_(source[j])
    return tables


def _from_behind(r: Tensor, source: Tensor, p: float) -> Tensor:
    """Return tables of the samples from i on, i = 0..n, `[n+1, ..., K+1]`, best sample first.

    t_i[m] = (1-p) t_{i+1}[m] + p r_i t_{i+1}[m-1] + source_i[m], source `[n, ..., K+1]`.
    """
    return _recurrence(r.flip(-1), source.flip(0), source.shape[-1] - 1, p).flip(0)


def _maxima(x: Tensor, r: Tensor, k: int, p: float) -> Tensor:
    """Return the sum of (product of ratios) (max of x) over m-subsets of the samples from i on."""
    n = x.shape[-1]
    source = x.new_zeros(n, *x.shape[:-1], k + 1)
    if k >= 1:
        source[..., 1] = (p * r * x * _none_above(n, p, x.device)).movedim(-1, 0)
    return _from_behind(r, source, p)


def _meet(before: Tensor, behind: Tensor, k: int) -> Tensor:
    """Return the sum over K others of each sample, from worse and better tables, `[..., n]`."""
    return (before[:-1, ..., : k + 1] * behind[1:, ..., : k + 1].flip(-1)).sum(-1).movedim(0, -1)


def _one_behind(marks: Tensor, p: float) -> Tensor:
    """Return the sum of marks over subsets with one sample above rank i, `[..., n]`."""
    n = marks.shape[-1]
    behind = marks.flip(-1).cumsum(-1).flip(-1)[..., 1:] * _none_above(n - 1, p, marks.device)
    return p * torch.cat([behind, torch.zeros_like(marks[..., :1])], dim=-1)


def _sum_lower_ranks(values: Tensor) -> Tensor:
    """Return the sum of the `values` `[..., n-1]` of all lower ranks, for every rank `[..., n]`."""
    return torch.cat([torch.zeros_like(values[..., :1]), values.cumsum(-1)], dim=-1)


def _none_above(n: int, p: float, device: torch.device) -> Tensor:
    """Return (1-p)^(n-i), the probability of no sample above rank i = 1..n, `[n]`."""
    behind = torch.arange(n - 1, -1, -1, dtype=torch.float64, device=device)
    return torch.pow(1 - p, behind)
