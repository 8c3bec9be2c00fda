"""The variance of a training step at every n, baseline and K, predicted from rewards.

A step of B rollouts has B/n groups of different prompts: Var = (n/B)(V_n + V_between). Scores have
one squared norm, 1, and E[ψ|R] explains the share κ, the coherence, of what it can explain at most:
‖∇J_K‖² = κ Var h_K(R) with h_K(r) = K E[max(r, best of K − 1)]. V_between is the share β of
E‖∇J_K‖² over prompts. Both come from measured scores, or are assumed.

X are prompts, or chances p of a success on a grid; J are logs that each lack a block of prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import beta as beta_distribution
from scipy.stats import binom
from scipy.stats import t as t_distribution
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.own.plans.coherence import ASSUMED, Coherence, squared_gradients
from maxk_lab.statistics.estimates import Array

BASELINES = ("none", "sample_loo", "centred", "subloo")
LARGEST_N = 256
_EQUAL = 1e-12  # weights of equal samples differ by rounding
_PARTITIONS = 8
# Chances of a success, closer to each other near 0 and 1.
_GRID = np.sin(np.pi / 2 * (np.arange(400) + 0.5) / 400) ** 2
# Blocks of prompts that are left out in turn, and the fewest informative prompts.
_BLOCKS, FEWEST = 64, 24


class _Cell(NamedTuple):
    """One K, n and baseline over X: E Σ w², what κ adds to it, ‖∇J_K‖²/κ, and dead groups."""

    k: int
    n: int
    baseline: str
    squares: Array
    cross: Array
    signal: Array
    dead: Array


def group_sizes(budget: int) -> list[int]:
    """Return the n that divide a budget."""
    return [n for n in range(2, min(budget, LARGEST_N) + 1) if budget % n == 0]


def plan(
    rewards: Sequence[Tensor],
    prompts: Sequence[Array],
    budget: int,
    ks: Sequence[int],
    coherence: Mapping[int, Coherence] | None = None,
    products: Tensor | None = None,
) -> pd.DataFrame:
    """Return the relative variance of a step for every K, n and unbiased baseline.

    rewards: groups [G, n] by their size; prompts: the number of the prompt of each group [G].
    Returns columns k, n, prompts, baseline, relative_variance, low, high, dead, loss, loss_low,
    loss_high, loss_least, loss_most, reason. `dead` is the share of groups with equal weights,
    `loss` the variance over the lowest at this K. Intervals are 95 % over prompts, NaN with a
    `reason` where fewer than `FEWEST` prompts are informative. `loss_least` and `loss_most` are the
    ends of the loss over the ranges of κ and β, which are assumed without `coherence`.
    With `products` ψ·ψ [G, n, n] of one block of groups, V_n is that of the scores. Then, and for
    rewards other than 0 and 1, n is at most the size of the groups.
    """
    binary = all(bool(((each == 0) | (each == 1)).all()) for each in rewards)
    count = 1 + max(int(each.max()) for each in prompts)
    informative = _informative(rewards, prompts)
    few = informative < FEWEST
    weights = np.ones((1, count)) if few else _shares_of_prompts(count)
    if binary and products is None:
        cells, weights = [*_binary_cells(budget, ks)], _beta_weights(rewards, prompts, weights)
    else:
        cells = [*_log_cells(rewards, prompts, budget, ks, products)]
        weights = weights / weights.sum(1, keepdims=True)
    lines = [
        line
        for k in dict.fromkeys(cell.k for cell in cells)
        for line in _lines(
            [cell for cell in cells if cell.k == k],
            weights,
            budget,
            _coherence(coherence, k, products is not None),
        )
    ]
    reason = f"no interval: {informative} of {count} prompts are informative, {FEWEST} needed"
    return pd.DataFrame(lines, columns=COLUMNS).assign(reason=reason if few else "")


COLUMNS = (
    *("k", "n", "prompts", "baseline", "relative_variance", "low", "high", "dead"),
    *("loss", "loss_low", "loss_high", "loss_least", "loss_most"),
)


def _shares_of_prompts(count: int) -> Array:
    """Return the weights of prompts in a jackknife, [1 + J, count]: all 1, then 0 for a block."""
    blocks = np.random.default_rng(0).permutation(count) % min(_BLOCKS, count)
    shares: Array = np.ones((1 + min(_BLOCKS, count), count))
    shares[1 + blocks, np.arange(count)] = 0.0
    return shares


def _informative(rewards: Sequence[Tensor], prompts: Sequence[Array]) -> int:
    """Return the number of informative prompts.

    For rewards of 0 and 1 these are the prompts with two successes, or with two failures if they
    are fewer. For other rewards they are the prompts whose rewards differ.
    """
    kinds = [(each == 1, each == 0) for each in rewards]
    if not all(bool((ones | zeros).all()) for ones, zeros in kinds):
        return _number([(each != each[:, :1]).any(1) for each in rewards], prompts)
    return min(_number([pair[i].sum(1) > 1 for pair in kinds], prompts) for i in (0, 1))


def _number(chosen: Iterable[Tensor], prompts: Iterable[Array]) -> int:
    """Return the number of prompts of the groups that are chosen."""
    parts = [each[mask.numpy()] for mask, each in zip(chosen, prompts, strict=True)]
    return len(np.unique(np.concatenate(parts)))


def _coherence(coherence: Mapping[int, Coherence] | None, k: int, measured: bool) -> Coherence:
    """Return the coherence of a K; `measured` gradients have no κ but their own norm."""
    values = (coherence or {}).get(k, ASSUMED)
    return replace(values, coherence=(1.0, 1.0, 1.0)) if measured else values


def _lines(
    cells: Sequence[_Cell], weights: Array, budget: int, coherence: Coherence
) -> Iterator[tuple[object, ...]]:
    """Yield the lines of one K; the first row of `weights` [1 + J, X] is the log itself."""
    squares, cross, signal, dead = (
        weights @ np.stack([getattr(cell, name) for cell in cells], axis=1)
        for name in ("squares", "cross", "signal", "dead")
    )
    sizes = np.array([cell.n for cell in cells])

    def variances(kappa: float, between: float) -> Array:
        """Return Var of a step [1 + J, cells]."""
        numbers: Array = sizes / budget * (squares + kappa * (cross + between * signal))
        return numbers

    (kappa, *kappas), (between, *shares) = coherence.coherence, coherence.between
    step = variances(kappa, between)
    norm = (1 - between) * kappa * signal
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(norm > 0, step / norm, np.nan)
        best = int(np.argmin(step[0]))
        loss = np.where(step[:, [best]] > 0, step / step[:, [best]], np.nan)
        ends = [variances(*each)[0] for each in product(kappas, shares)]
        losses = np.stack([each / each.min() if each.min() > 0 else each + np.nan for each in ends])
    for i, cell in enumerate(cells):
        yield (
            *(cell.k, cell.n, budget // cell.n, cell.baseline, relative[0, i]),
            *_interval(relative[:, i]),
            *(dead[0, i], loss[0, i], *_interval(loss[:, i])),
            *(losses[:, i].min(), losses[:, i].max()),
        )


def _interval(values: Array) -> tuple[float, float]:
    """Return the ends of the 95 % interval of the first value, by a jackknife of its logarithm.

    The others [J] each lack a block of prompts. NaN without them, where one is undefined, or where
    all agree on a value that is not 1.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value, *lacking = logarithms = np.log(values)
        agree = value != 0 and np.ptp(logarithms) <= _EQUAL
    blocks = len(lacking)
    if blocks < 2 or agree or not np.isfinite(logarithms).all():
        return math.nan, math.nan
    half = t_distribution.ppf(0.975, blocks - 1) * math.sqrt(blocks - 1) * float(np.std(lacking))
    return math.exp(value - half), math.exp(value + half)


def _methods(ks: Iterable[int], sizes: Iterable[int]) -> Iterator[tuple[int, int, str, Method]]:
    """Yield K, n, baseline and method of every cell that is defined."""
    for k, n, baseline in product(ks, sizes, sorted(BASELINES)):
        method = Method.parse("maxk", baseline, k)
        if method.refusal(n) is None:
            yield k, n, baseline, method


def _binary_cells(budget: int, ks: Sequence[int]) -> Iterator[_Cell]:
    """Yield the cells over chances p of a success: sums over the successes s of n samples."""
    p, q = _GRID[:, None], 1 - _GRID[:, None]
    for k, n, baseline, method in _methods(ks, group_sizes(budget)):
        s = np.arange(n + 1)
        w = method.weights(torch.from_numpy((np.arange(n) >= n - s[:, None]).astype(float))).numpy()
        ones, zeros = np.where(s > 0, w[:, -1], 0.0), np.where(s < n, w[:, 0], 0.0)
        chance = binom.pmf(s, n, p)
        total = s * ones * q - (n - s) * zeros * p
        alone = s * (ones * q) ** 2 + (n - s) * (zeros * p) ** 2
        signal = k**2 * q ** (2 * k - 1) * p
        is_dead = np.abs(ones - zeros)[1:-1] <= _EQUAL
        yield _Cell(
            *(k, n, baseline),
            squares=chance @ (s * ones**2 + (n - s) * zeros**2),
            cross=(chance * (total**2 - alone) / (p * q)).sum(1) - signal[:, 0],
            signal=signal[:, 0],
            dead=chance @ np.array([True, *is_dead, True], dtype=float),
        )


def _log_cells(
    rewards: Sequence[Tensor],
    prompts: Sequence[Array],
    budget: int,
    ks: Sequence[int],
    products: Tensor | None,
) -> Iterator[_Cell]:
    """Yield the cells over prompts: means over groups of n that are cut out of the log's groups."""
    count = 1 + max(int(each.max()) for each in prompts)
    # Weights are in units of the largest reward, so that their squares are finite and not 0.
    unit = max(float(each.abs().max()) for each in rewards) or 1.0
    largest = max(each.shape[1] for each in rewards)
    sizes = [n for n in group_sizes(budget) if n <= largest]
    generator = torch.Generator().manual_seed(0)
    cuts = {n: [*_cut([each / unit for each in rewards], prompts, n, generator)] for n in sizes}
    norms = {}
    if products is not None:
        (block,) = rewards
        norms = {k: squared_gradients(block / unit, products, k) for k in ks if k < largest // 2}
    for k, n, baseline, method in _methods(ks, sizes):
        if products is not None and k not in norms:
            continue
        reference = Method.parse("maxk", "centred" if k < n else "subloo", k)
        columns: list[tuple[Tensor, Tensor, Tensor, Array]] = []
        for groups, numbers, order in cuts[n]:
            w = method.weights(groups)
            spread = (w - w.mean(1, keepdim=True)).abs().amax(1)
            squares = w.square().sum(1)
            if products is not None:
                rows = torch.arange(len(products)).repeat_interleave(len(groups) // len(products))
                within = products[rows[:, None, None], order[:, :, None], order[:, None, :]]
                squares = ((w[:, None] @ within)[:, 0] * w).sum(1)
            signal = (n - 1) * reference.weights(groups).square().sum(1)
            columns.append((squares, signal, (spread <= _EQUAL).double(), numbers))
        m2, norm, dead = (
            _prompt_means([(np.asarray(each[i]), each[3]) for each in columns], count)
            for i in range(3)
        )
        norm = norms.get(k, norm)
        m2 = m2 if products is None else m2 - norm
        yield _Cell(k, n, baseline, m2 * unit**2, 0 * m2, norm * unit**2, dead)


def _cut(
    rewards: Sequence[Tensor], prompts: Sequence[Array], n: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Array, Tensor]]:
    """Yield groups [G, n], cut out of larger groups, with their prompts [G] and places [G, n]."""
    for groups, numbers in zip(rewards, prompts, strict=True):
        each = groups.shape[1] // n
        for _ in range(min(each, 1) * (_PARTITIONS if groups.shape[1] > n else 1)):
            order = torch.rand(groups.shape, generator=generator).argsort(1)[:, : each * n]
            places = order.view(-1, n)
            yield groups.gather(1, order).view(-1, n), np.repeat(numbers, each), places


def _prompt_means(columns: Sequence[tuple[Array, Array]], count: int) -> Array:
    """Return the mean over the groups of each prompt [X], as a share of the mean over prompts."""
    values, numbers = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    sums, groups = np.bincount(numbers, values, count), np.bincount(numbers, minlength=count)
    means: Array = np.where(groups > 0, sums / np.maximum(groups, 1), np.nan)
    return np.where(groups > 0, means, np.nanmean(means))


def _beta_weights(rewards: Sequence[Tensor], prompts: Sequence[Array], counts: Array) -> Array:
    """Return the weights of the grid [1 + J, X]: the Beta distribution of p over prompts.

    Its first two moments are those of the log: P(a sample succeeds), and P(both of a pair do).
    """
    count, moments = counts.shape[1], np.zeros((3, counts.shape[1]))
    for groups, numbers in zip(rewards, prompts, strict=True):
        n, s = groups.shape[1], groups.sum(1).numpy()
        columns = (s / n, s * (s - 1) / (n * (n - 1)), np.ones(len(s)))
        moments += np.stack([np.bincount(numbers, column, count) for column in columns])
    mean, both, number = (counts @ moments.T).T
    mean, both = mean / number, both / number
    least = 1e-6
    precision = np.maximum(mean - both, least) / np.maximum(both - mean**2, least)
    mean = np.clip(mean, least, 1 - least)
    ends = np.sin(np.pi / 2 * np.linspace(0, 1, len(_GRID) + 1)) ** 2
    shares = (mean * precision, (1 - mean) * precision)
    below = beta_distribution.cdf(ends, *(share[:, None] for share in shares))
    return np.diff(below, axis=1)


def recommendations(plan: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each source and K of plans: what to use, ties, and how sure it is."""
    for (source, k), rows in plan.groupby(["source", "k"], sort=False):
        ranked: Any = rows.sort_values("loss", kind="stable")
        best, *others = ranked.itertuples()
        if best.loss != best.loss:
            yield f"{source}, K = {k}: no signal"
            continue
        tied = [] if best.reason else [row for row in others if not row.loss_low > 1]
        ties = [f"{row.baseline} n = {row.n}" for row in tied]
        sizes = sorted({row.n for row in ranked.itertuples() if row.loss_least <= 1 + 1e-9})
        place = "" if plan.source.nunique() == 1 else f"{source}, "
        line = f"Use at {place}K = {k}: {best.baseline} with n = {best.n}, "
        line += f"{best.prompts} prompt{'s' * (best.prompts != 1)} a step"
        line += f"; ties: {', '.join(ties[:3])}" if ties else ""
        line += "; ties are unknown without intervals" if best.reason else ""
        span = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
        yield f"{line}. Over the range of the coherence the best n is {span}."
