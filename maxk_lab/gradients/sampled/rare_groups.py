"""The effective number of groups behind an estimate, and what rare groups add to E‖ĝ‖².

Index: I instances, L levels of reward, G multisets of n levels, n samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaincinv
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.gradients.scores.pool import Part, ScorePool
from maxk_lab.statistics.estimates import Array, effective_number
from maxk_lab.statistics.units import LEAST_DRAWN

# Weights below this share of the largest reward are rounding errors of tied rewards.
ROUNDING = 1e-13
# The most multisets: beyond them, neighbouring rewards share a level to save time.
MOST_MULTISETS = 1000
# The confidence of the lower end of the number of groups behind a drawn mean, one-sided.
_LOWER = 0.05


def beyond_rounding(weights: Tensor, rewards: Tensor) -> Tensor:
    """Return the weights [..., n], with rounding errors of tied rewards set to 0."""
    return weights * (weights.abs() > ROUNDING * rewards.abs().amax(-1, keepdim=True))


def drawn_number(squares: Tensor, replicates: int, most: int) -> Array:
    """Return the effective number of groups behind the mean length of an estimate, [I].

    squares [I, ...]: ‖ĝ‖² of every group; `replicates` of the groups are independent. The number is
    the lower end of a 95 % interval, at most the number of trajectories. It is the number of groups
    with equal lengths whose mean has the same relative error.
    """
    lengths = squares.clamp(min=0.0).sqrt().flatten(1).double().numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        number = replicates * lengths.mean(1) ** 2 / lengths.var(1)
    alive = lengths.any(1)
    number = np.where(alive, np.minimum(number, most), 1.0)
    return np.where(alive, gammaincinv(number, _LOWER), 0.0)


class RareGroups:
    """The groups of n of a pool by the levels of their rewards, with probabilities.

    The probabilities are exact if all trajectories are listed, else shares of the drawn
    trajectories. `replicates` is the number of groups drawn of each instance.
    """

    def __init__(self, pool: ScorePool, n: int, replicates: int) -> None:
        self._n, self._replicates, self._size = n, replicates, pool.rewards.shape[1]
        most = max(count for count in range(2, 65) if comb(n + count - 1, n) <= MOST_MULTISETS)
        self._levels = [_Levels.of(instance, most) for instance in pool.parts]
        width = max(len(levels.chance) for levels in self._levels)
        multisets = list(combinations_with_replacement(range(width), n))
        # An ordered estimator sees the members in random order.
        self.multisets = np.random.default_rng(0).permuted(np.array(multisets), axis=1)
        self._of_level = (self.multisets[..., None] == np.arange(width)).astype(float)

    def expected_number(self, squares: Array) -> Array:
        """Return the expected value of `drawn_number` for these `squares` [I, G]: [I]."""
        mean, second = (self.chances * squares**0.5).sum(1), (self.chances * squares).sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            number = self._replicates / np.maximum(second / mean**2 - 1, 0.0)
        return np.where(mean > 0, np.minimum(number, self._size), 0.0)

    def rare(self, squares: Array) -> tuple[Array, Array]:
        """Return what the rare groups of every instance add to E‖ĝ‖², [I] each.

        Rare groups are the least likely groups. For the first column, `LEAST_DRAWN` rare groups are
        expected in the pools of all instances; for the second column, in the pool of each instance.
        """
        added = squares * self.chances
        of_all, of_each = ((added * share).sum(1) for share in self._rare_shares)
        return of_all, of_each

    def squares(self, method: Method, coefficients: Tensor | None) -> Array:
        """Return E‖ĝ‖² given the levels of every multiset, [I, G].

        coefficients [I, D]: those of a method with a fit. A method that uses other prompts is
        computed without them.
        """
        rewards, ratios = self._member_column("reward"), self._member_column("ratio")
        kind = method.needed_weight
        by_kind = {kind: self._member_column(kind)} if kind else {}
        alone = [[i] for i in range(len(rewards))]
        weights = torch.cat(
            [
                method.weights(
                    rewards[rows],
                    trajectory_weights={kind: g[rows] for kind, g in by_kind.items()},
                    ratios=ratios[rows] if method.needs_ratios else None,
                    coefficients=None if coefficients is None else coefficients[rows, None],
                )
                for rows in (alone if method.uses_other_prompts else [list(range(len(rewards)))])
            ]
        )
        w = beyond_rounding(weights.double(), rewards).numpy()[:, :, np.newaxis]
        sums, squares = ((table @ self._of_level)[:, :, 0] for table in (w, w**2))
        inner = np.stack([levels.padded("inner", self._width) for levels in self._levels])
        spread = self._column("spread")[:, None]
        return np.asarray((sums @ inner * sums + squares * spread).sum(2).clip(min=0.0))

    @property
    def _width(self) -> int:
        return int(self._of_level.shape[2])

    def _column(self, name: str) -> Array:
        """Return a number of every level, [I, L]; 0 for levels that an instance lacks."""
        return np.stack([levels.padded(name, self._width) for levels in self._levels])

    def _member_column(self, name: str) -> Tensor:
        """Return a number of every member of a multiset, [I, G, n]."""
        return torch.from_numpy(self._column(name)[:, self.multisets])

    @cached_property
    def chances(self) -> Array:
        """The probability of every multiset, [I, G]."""
        counts = torch.from_numpy(self._of_level.sum(1))
        chance = torch.from_numpy(self._column("chance"))
        logs = torch.lgamma(counts.sum(1) + 1) - torch.lgamma(counts + 1).sum(1)
        return np.asarray((logs + torch.xlogy(counts, chance[:, None]).sum(2)).exp())

    @cached_property
    def _rare_shares(self) -> tuple[Array, Array]:
        """The share of every multiset that counts as rare, [I, G]: in all pools, in each pool."""
        # If few instances dominate a mean, only their groups count.
        effective = np.nan_to_num(effective_number(self._column("size").sum(1)), nan=1.0)
        order = np.argsort(self.chances, axis=1, kind="stable")
        ordered = np.take_along_axis(self.chances, order, 1)
        below = ordered.cumsum(1) - ordered

        def share(pools: float) -> Array:
            rare = LEAST_DRAWN / (self._replicates * pools) - below
            by_multiset: Array = np.empty(ordered.shape)
            shares = np.clip(rare / np.maximum(ordered, 1e-300), 0.0, 1.0)
            np.put_along_axis(by_multiset, order, shares, 1)
            return by_multiset

        return share(effective), share(1.0)


@dataclass(frozen=True)
class _Levels:
    """Levels of reward of an instance, [L] each: probability, mean reward and scores.

    inner [L, L] are the products of the mean scores ψ̄ of the levels, spread E‖ψ‖² − ‖ψ̄‖² in each
    level, size the share of a level in E (R − E R)² ‖ψ‖².
    """

    chance: Array
    reward: Array
    ratio: Array
    length: Array
    logit_proxy: Array
    grad_norm: Array
    inner: Array
    spread: Array
    size: Array

    @classmethod
    def of(cls, instance: Part, most: int) -> _Levels:
        """Return at most `most` levels of an instance."""
        listed = instance.listed
        source = instance.drawn if listed is None else listed
        chance = torch.full_like(source.rewards, 1 / len(source.rewards))
        rows = instance.rows
        if listed is not None:
            chance, rows = listed.behaviour, torch.arange(len(chance))
        possible = torch.nonzero(chance > 0)[:, 0]
        rewards, p = source.rewards[possible].numpy(), chance[possible].numpy()
        label = levels_of(rewards, p, most)
        totals = np.bincount(label, p)

        def mean(values: Tensor) -> Array:
            numbers = values[possible].double().numpy()
            first = numbers[np.unique(label, return_index=True)[1]]
            return np.asarray(first + np.bincount(label, p * (numbers - first[label])) / totals)

        norms = instance.squared_norms[rows]
        shares = torch.zeros(len(instance.squared_norms), len(totals), dtype=torch.float64)
        entries = rows[possible], torch.from_numpy(label)
        shares.index_put_(entries, torch.from_numpy(p / totals[label]), accumulate=True)
        if instance.scores is None:
            inner = shares.T @ instance.products @ shares
        else:
            means = shares.T @ instance.scores
            inner = means @ means.T
        reward, square = mean(source.rewards), mean(norms)
        weights = {
            kind: mean(instance.trajectory_weight(kind, listed=listed is not None))
            for kind in ("length", "logit_proxy", "grad_norm")
        }
        return cls(
            np.asarray(totals, dtype=float),
            reward,
            mean(source.ratios),
            **weights,
            inner=inner.numpy(),
            spread=(square - inner.diagonal().numpy()).clip(min=0.0),
            size=totals * (reward - totals @ reward) ** 2 * square,
        )

    def padded(self, name: str, width: int) -> Array:
        """A column padded to `width` with levels of probability 0; their g and ratio is 1."""
        column: Array = getattr(self, name)
        blank = float(name in ("ratio", "length", "logit_proxy", "grad_norm"))
        missing = [(0, width - len(self.chance))] * column.ndim
        return np.pad(column, missing, constant_values=blank)


def levels_of(rewards: Array, chance: Array, most: int) -> NDArray[np.int64]:
    """Return the level of each reward [A], at most `most`, by splits that explain most variance.

    If there are at most `most` different rewards, each is a level.
    """
    values, place = np.unique(rewards, return_inverse=True)
    if len(values) <= most:
        return np.asarray(place)
    p = np.bincount(place, chance)
    p_sums, sums = (np.concatenate([[0.0], column.cumsum()]) for column in (p, p * values))
    pieces = [_best_split(p_sums, sums, 0, len(values))]
    while len(pieces) < most:
        best = max(pieces)
        pieces.remove(best)
        _, start, middle, end = best
        pieces += [_best_split(p_sums, sums, *piece) for piece in ((start, middle), (middle, end))]
    starts = sorted(start for _, start, _, _ in pieces)
    return np.asarray(np.searchsorted(starts, place, side="right") - 1)


def _best_split(p_sums: Array, sums: Array, start: int, end: int) -> tuple[float, int, int, int]:
    """The variance explained by the best split of values start … end−1, with start, split, end."""
    if end - start < 2:
        return -1.0, start, end, end
    inside = slice(start + 1, end)
    lower, upper = p_sums[inside] - p_sums[start], p_sums[end] - p_sums[inside]
    # A probability that is lost in the sums explains nothing.
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (sums[inside] - sums[start]) / lower, (sums[end] - sums[inside]) / upper
        explained = lower * upper / (lower + upper) * (means[0] - means[1]) ** 2
    explained = np.where((lower > 0) & (upper > 0), explained, 0.0)
    return float(explained.max()), start, start + 1 + int(explained.argmax()), end
