"""The variance of a training step at every n, baseline and K, predicted from rewards.

A step of B rollouts has B/n groups of different prompts: Var = (n/B)(V_n + V_between). V_between is
the share β of E‖∇J_K‖² over prompts, measured or assumed. Every K follows one of three rules:

- scores: V_n and ‖∇J_K‖² are those of the products of the logged samples' scores.
- ranks: the norms and products of scores are those measured elsewhere at the ranks of rewards.
  ‖∇J_K‖² is the product of two halves of a group; groups of 0 and 1 need no halves. If halves of
  all groups are too small for K, the next rule holds.
- coherence: scores have one squared norm, 1, and E[ψ|R] explains the share κ, the coherence, of
  what it can explain at most: ‖∇J_K‖² = κ Var h_K(R) with h_K(r) = K E[max(r, best of K − 1)].

X are prompts, or chances p of a success on a grid; J are logs that each lack a block of prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import beta as beta_distribution
from scipy.stats import binom
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.own.plans.coherence import ASSUMED, Coherence, squared_gradients
from maxk_lab.own.plans.jackknife import half_width, shares_of_prompts
from maxk_lab.own.plans.products import (
    BlockScores,
    LoggedScores,
    RankedScores,
    ScoreProducts,
    mid_ranks,
)
from maxk_lab.statistics.estimates import Array

BASELINES = ("none", "sample_loo", "centred", "subloo")
LARGEST_N = 256
_EQUAL = 1e-12  # weights of equal samples differ by rounding
_FLOOR = 1e-12  # a group may lie where the prior has no mass
_PARTITIONS = 8
# Chances of a success, closer to each other near 0 and 1.
_GRID = np.sin(np.pi / 2 * (np.arange(400) + 0.5) / 400) ** 2
# The fewest informative prompts of an interval.
FEWEST = 24


class _Cell(NamedTuple):
    """One K, n and baseline over X: V_n is `squares` + κ `cross`, ‖∇J_K‖² is κ `signal`.

    κ is 1 unless the rule is `coherence`. `dead` is the share of groups with equal weights.
    """

    rule: str
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
    by_rank: ScoreProducts | None = None,
) -> pd.DataFrame:
    """Return the relative variance of a step for every K, n and unbiased baseline.

    rewards: groups [G, n] by their size; prompts: the number of the prompt of each group [G].
    Returns columns k, n, prompts, baseline, relative_variance, low, high, dead, loss, loss_low,
    loss_high, loss_least, loss_most, gradients, reason. `dead` is the share of groups with equal
    weights, `loss` the variance over the lowest at this K. Intervals are 95 % over prompts, NaN
    with a `reason` where fewer than `FEWEST` prompts are informative. `loss_least` and `loss_most`
    are the least and the greatest loss at the ends of the ranges of κ and β, which are assumed
    without `coherence`.
    `products` ψ·ψ [G, n, n] are those of one block of groups, `by_rank` those measured elsewhere;
    `gradients` says which rule a K follows. With `products`, and for rewards other than 0 and 1, n
    is at most the size of the groups.
    """
    binary = all(bool(((each == 0) | (each == 1)).all()) for each in rewards)
    # A Beta distribution of p gives mixed groups a chance, even if the log has none.
    binary &= any(bool((each != each[:, :1]).any()) for each in rewards)
    count = 1 + max(int(each.max()) for each in prompts)
    informative = _informative(rewards, prompts)
    few = informative < FEWEST
    weights = np.ones((1, count)) if few else shares_of_prompts(count)
    if binary and products is None:
        cells, shares = [*_binary_cells(budget, ks, by_rank)], weights
        weights = _beta_weights(rewards, prompts, shares)
        if by_rank is not None:  # norms can depend on p so strongly that the prior is too wide
            weights = _posteriors(weights, rewards, prompts, shares)
    else:
        cells = [*_log_cells(rewards, prompts, budget, ks, products, by_rank)]
        weights = weights / weights.sum(1, keepdims=True)
    lines = [
        (*line, f"{of_k}")
        for rule, k in dict.fromkeys((cell.rule, cell.k) for cell in cells)
        for of_k in [(coherence or {}).get(k, ASSUMED).under(rule)]
        for line in _lines([cell for cell in cells if cell.k == k], weights, budget, of_k)
    ]
    reason = f"no interval: {informative} of {count} prompts are informative, {FEWEST} needed"
    return pd.DataFrame(lines, columns=COLUMNS).assign(reason=reason if few else "")


COLUMNS = (
    *("k", "n", "prompts", "baseline", "relative_variance", "low", "high", "dead"),
    *("loss", "loss_low", "loss_high", "loss_least", "loss_most", "gradients"),
)


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
    if len(lacking) < 2 or agree or not np.isfinite(logarithms).all():
        return math.nan, math.nan
    half = half_width(np.array(lacking))
    return math.exp(value - half), math.exp(value + half)


def _methods(ks: Iterable[int], sizes: Iterable[int]) -> Iterator[tuple[int, int, str, Method]]:
    """Yield K, n, baseline and method of every cell that is defined."""
    for k, n, baseline in product(ks, sizes, sorted(BASELINES)):
        method = Method.parse("maxk", baseline, k)
        if method.refusal(n) is None:
            yield k, n, baseline, method


def _binary_cells(budget: int, ks: Sequence[int], by_rank: ScoreProducts | None) -> Iterator[_Cell]:
    """Yield the cells over chances p of a success: sums over the successes s of n samples."""
    p, q = _GRID, 1 - _GRID
    rule = "coherence" if by_rank is None else "ranks"
    win, loss, wins, mixed, losses = _binary_products(by_rank)
    for k, n, baseline, method in _methods(ks, group_sizes(budget)):
        s = np.arange(n + 1)
        w = method.weights(torch.from_numpy((np.arange(n) >= n - s[:, None]).astype(float))).numpy()
        ones, zeros = np.where(s > 0, w[:, -1], 0.0), np.where(s < n, w[:, 0], 0.0)
        chance = binom.pmf(s, n, p[:, None])
        signal = (k * q ** (k - 1) * p * q) ** 2 * (wins - 2 * mixed + losses)
        cross = (
            (chance @ (s * (s - 1) * ones**2)) * wins
            + (chance @ (2 * s * (n - s) * ones * zeros)) * mixed
            + (chance @ ((n - s) * (n - s - 1) * zeros**2)) * losses
        )
        is_dead = np.abs(ones - zeros)[1:-1] <= _EQUAL
        yield _Cell(
            *(rule, k, n, baseline),
            squares=chance @ (s * ones**2) * win + chance @ ((n - s) * zeros**2) * loss,
            cross=cross - signal,
            signal=signal,
            dead=chance @ np.array([True, *is_dead, True], dtype=float),
        )


def _binary_products(by_rank: ScoreProducts | None) -> tuple[Array, ...]:
    """Return squared norms and products of scores at each chance of a success, [5, X].

    E‖ψ‖² of a success and of a failure; E[ψ·ψ'] of two successes, of one of each, of two failures.
    """
    p, q = _GRID, 1 - _GRID
    if by_rank is None:
        norms = np.ones_like(p)
        return norms, norms, q / p, -norms, p / q
    win, loss = (by_rank.bins(torch.from_numpy(ranks)) for ranks in (1 - p / 2, q / 2))
    means = (by_rank.means[pair] for pair in ((win, win), (win, loss), (loss, loss)))
    return tuple(each.numpy() for each in (by_rank.norms[win], by_rank.norms[loss], *means))


def _log_cells(
    rewards: Sequence[Tensor],
    prompts: Sequence[Array],
    budget: int,
    ks: Sequence[int],
    products: Tensor | None,
    by_rank: ScoreProducts | None,
) -> Iterator[_Cell]:
    """Yield the cells over prompts: means over groups of n that are cut out of the log's groups."""
    count = 1 + max(int(each.max()) for each in prompts)
    # Weights are in units of the largest reward, so that their squares are finite and not 0.
    unit = max(float(each.abs().max()) for each in rewards) or 1.0
    rewards = [each / unit for each in rewards]
    largest = max(each.shape[1] for each in rewards)
    sizes = [n for n in group_sizes(budget) if n <= largest]
    generator = torch.Generator().manual_seed(0)
    cuts = {n: [*_cut(rewards, n, generator)] for n in sizes}
    scores: list[BlockScores] = [] if products is None else [LoggedScores(products)]
    if by_rank is not None and products is None:
        scores = [RankedScores(by_rank, by_rank.bins(mid_ranks(each))) for each in rewards]
    signals = _signals(rewards, prompts, scores, ks, count)
    for k, n, baseline, method in _methods(ks, sizes):
        measured = k in signals
        if products is not None and not measured:
            continue
        reference = Method.parse("maxk", "centred" if k < n else "subloo", k)
        columns: list[tuple[Tensor, Tensor, Tensor, Array]] = []
        for block, groups, rows, places in cuts[n]:
            w = method.weights(groups)
            spread = (w - w.mean(1, keepdim=True)).abs().amax(1)
            squares = w.square().sum(1)
            if measured:
                squares = scores[block].second_moments(w, rows, places)
            signal = (n - 1) * reference.weights(groups).square().sum(1)
            numbers = prompts[block][rows.numpy()]
            columns.append((squares, signal, (spread <= _EQUAL).double(), numbers))
        m2, norm, dead = (
            _prompt_means([(np.asarray(each[i]), each[3]) for each in columns], count)
            for i in range(3)
        )
        norm = signals.get(k, norm)
        m2 = m2 - norm if measured else m2
        rule = "coherence" if not measured else "ranks" if products is None else "scores"
        yield _Cell(rule, k, n, baseline, m2 * unit**2, 0 * m2, norm * unit**2, dead)


def _signals(
    rewards: Sequence[Tensor],
    prompts: Sequence[Array],
    scores: Sequence[BlockScores],
    ks: Sequence[int],
    count: int,
) -> dict[int, Array]:
    """Return ‖∇J_K‖² of each prompt [X] for the K that halves of some groups have."""
    signals = {}
    for k in ks:
        blocks = [
            (squared_gradients(groups, block, k), numbers)
            for groups, numbers, block in zip(rewards, prompts, scores, strict=False)
            if k < groups.shape[1] // 2
        ]
        if blocks:
            signals[k] = _prompt_means(blocks, count)
    return signals


def _cut(
    rewards: Sequence[Tensor], n: int, generator: torch.Generator
) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
    """Yield blocks of groups [G, n] cut out of larger groups: their block, row and places there."""
    for block, groups in enumerate(rewards):
        each = groups.shape[1] // n
        for _ in range(min(each, 1) * (_PARTITIONS if groups.shape[1] > n else 1)):
            order = torch.rand(groups.shape, generator=generator).argsort(1)[:, : each * n]
            rows = torch.arange(len(groups)).repeat_interleave(each)
            yield block, groups.gather(1, order).view(-1, n), rows, order.view(-1, n)


def _prompt_means(columns: Sequence[tuple[Array, Array]], count: int) -> Array:
    """Return the mean over the groups of each prompt [X]; without groups, the mean over prompts."""
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


def _posteriors(
    prior: Array, rewards: Sequence[Tensor], prompts: Sequence[Array], counts: Array
) -> Array:
    """Return the mean posterior of p over groups, [1 + J, X], given its prior."""
    prior, weights = np.maximum(prior, _FLOOR), np.zeros_like(prior)
    for groups, numbers in zip(rewards, prompts, strict=True):
        n = groups.shape[1]
        each, place = np.unique(groups.sum(1).numpy(), return_inverse=True)
        likelihood = binom.logpmf(each[:, None], n, _GRID)
        likelihood = np.exp(likelihood - likelihood.max(1, keepdims=True))
        times = np.zeros((len(counts), len(each)))
        np.add.at(times.T, place, counts[:, numbers].T)
        weights += prior * ((times / (prior @ likelihood.T)) @ likelihood)
    normed: Array = weights / weights.sum(1, keepdims=True)
    return normed


def recommendations(plan: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each source and K of plans: what to use, ties, and how sure it is."""
    for (source, k), rows in plan.groupby(["source", "k"], sort=False):
        ranked: Any = rows.sort_values("loss", kind="stable")
        best, *others = ranked.itertuples()
        if best.loss != best.loss:
            yield f"{source}, K = {k}: no signal"
            continue
        tied = [row for row in others if row.loss_low <= 1]
        unknown = any(row.loss_low != row.loss_low for row in others)
        ties = [f"{row.baseline} n = {row.n}" for row in tied]
        sizes = sorted({row.n for row in ranked.itertuples() if row.loss_least <= 1 + 1e-9})
        place = "" if plan.source.nunique() == 1 else f"{source}, "
        line = f"Use at {place}K = {k}: {best.baseline} with n = {best.n}, "
        line += f"{best.prompts} prompt{'s' * (best.prompts != 1)} a step"
        line += f"; ties: {', '.join(ties[:3])}" if ties else ""
        more = "more ties" if tied else "ties"
        line += f"; {more} are unknown without intervals" if best.reason or unknown else ""
        span = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
        yield f"{line}. Over the range of the coherence the best n is {span}."
