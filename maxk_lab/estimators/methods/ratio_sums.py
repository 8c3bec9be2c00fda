"""Sums over all subsets of samples of the products of their importance ratios, without division.

They are built sample by sample, in the order of the rewards. Each sample is taken with probability
p = K/n and left with 1 - p, so that at ratios of one the entries are the probabilities of a
binomial, in range for every n and K; `normalizer` takes that out again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.estimators.engine import cached


def _recurrence(r: Tensor, source: Tensor | None, k: int, p: float) -> Tensor:
    """Tables t_j, j = 0..n, `[n+1, ..., K+1]`, of r `[..., n]`.

    t_{j+1}[m] = (1-p) t_j[m] + p r_j t_j[m-1] + source_j[m].

    source: `[n, ..., K+1]`, with t_0 = 0; without it t_0 is 1 at m = 0.
    """
    n = r.shape[-1]
    tables = r.new_zeros(n + 1, *r.shape[:-1], k + 1)
    if source is None:
        tables[0, ..., 0] = 1.0
    taken = (p * r).movedim(-1, 0).unsqueeze(-1)
    for last, table, own, add in zip(
        tables[:-1], tables[1:], taken, [None] * n if source is None else source, strict=True
    ):
        torch.mul(last, 1 - p, out=table)
        table[..., 1:].addcmul_(last[..., :-1], own)
        if add is not None:
            table.add_(add)
    return tables


def products(r: Tensor, k: int, p: float) -> Tensor:
    """The sum of the product of ratios over the m-subsets of the first j samples, j = 0..n.

    m = 0..K; `[n+1, ..., K+1]`.
    """
    return _recurrence(r, None, k, p)


def from_behind(r: Tensor, source: Tensor, p: float) -> Tensor:
    """Tables of the samples from i on, i = 0..n, `[n+1, ..., K+1]`, worse samples joining later.

    t_i[m] = (1-p) t_{i+1}[m] + p r_i t_{i+1}[m-1] + source_i[m], source `[n, ..., K+1]`.
    """
    return _recurrence(r.flip(-1), source.flip(0), source.shape[-1] - 1, p).flip(0)


def maxima(x: Tensor, r: Tensor, k: int, p: float) -> Tensor:
    """The sum of (product of ratios) (max of x) over the m-subsets of the samples from i on.

    i = 0..n; it is 0 at m = 0.
    """
    n = x.shape[-1]
    source = x.new_zeros(n, *x.shape[:-1], k + 1)
    if k >= 1:
        source[..., 1] = (p * r * x * left(n, p, x.device)).movedim(-1, 0)
    return from_behind(r, source, p)


def marked(marks: Tensor, r: Tensor, products: Tensor, p: float) -> Tensor:
    """The sum of sum_i marks_i (product of the other ratios) over the first j's m-subsets.

    marks: `[sorts, ..., n]`, the tables of each in one go: `[sorts, n+1, ..., K+1]`.
    """
    source = products.new_zeros(marks.shape[-1], *marks.shape[:-1], products.shape[-1])
    source[..., 1:] = p * marks.movedim(-1, 0).unsqueeze(-1) * products[:-1, None, ..., :-1]
    return _recurrence(r.expand_as(marks), source, products.shape[-1] - 1, p).movedim(1, 0)


def meet(before: Tensor, behind: Tensor, k: int) -> Tensor:
    """The sum over K others of every sample `[..., n]`, m of them worse and the rest better.

    `before` is a table of the first samples, `behind` of the last.
    """
    return (before[:-1, ..., : k + 1] * behind[1:, ..., : k + 1].flip(-1)).sum(-1).movedim(0, -1)


def below(products: Tensor, m: int, p: float) -> Tensor:
    """The sum over m worse others of the product of ratios, for every sample `[..., n]`.

    All better ones are left out.
    """
    n = len(products) - 1
    return products[:-1, ..., m].movedim(0, -1) * left(n, p, products.device)


def one_behind(marks: Tensor, p: float) -> Tensor:
    """The sum of the marks of the samples behind rank i, all others there left out, `[..., n]`."""
    n = marks.shape[-1]
    behind = marks.flip(-1).cumsum(-1).flip(-1)[..., 1:] * left(n - 1, p, marks.device)
    return p * torch.cat([behind, torch.zeros_like(marks[..., :1])], dim=-1)


def of_lower_ranks(values: Tensor) -> Tensor:
    """The sum of the `values` `[..., n-1]` of all lower ranks, for every rank `[..., n]`."""
    return torch.cat([torch.zeros_like(values[..., :1]), values.cumsum(-1)], dim=-1)


def left(n: int, p: float, device: torch.device) -> Tensor:
    """(1-p)^(n-i), the chance of no sample behind rank i = 1..n, `[n]`."""
    behind = torch.arange(n - 1, -1, -1, dtype=torch.float64, device=device)
    return torch.pow(1 - p, behind)


@cached
def normalizer(n: int, k: int) -> Tensor:
    """C(n,K) p^K (1-p)^(n-K), by the recurrence of the samples, so that the rounding is alike."""
    ones = torch.ones(n, dtype=torch.float64)
    return products(ones, k, k / n)[-1, k]
