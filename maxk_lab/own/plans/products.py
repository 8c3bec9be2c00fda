"""Products of the scores of samples: logged ones, or their means at the ranks of rewards.

P prompts, M samples, G groups of n samples, C bins of mid-ranks. Given rewards, the scores of
samples are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import one_hot

# Ends of bins, closer to each other where few samples are better, or worse.
EDGES = (
    *(0.001, 0.004, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4),
    *(0.6, 0.75, 0.85, 0.92, 0.96, 0.98, 0.99, 0.996),
)


class BlockScores(Protocol):
    """The scores of a block of groups of samples [P, M]."""

    def second_moments(self, weights: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Return E‖Σ w ψ‖² of the samples at `places` [G, n] in `rows` [G] of the block."""
        ...

    def inner_products(self, first: Tensor, second: Tensor) -> Tensor:
        """Return E[Σ w ψ · Σ w' ψ'] of weights [P, M] without a common sample."""
        ...


@dataclass(frozen=True)
class LoggedScores:
    """Scores with the products ψ·ψ [P, M, M]."""

    products: Tensor

    def second_moments(self, weights: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Return ‖Σ w ψ‖²."""
        within = self.products[rows[:, None, None], places[:, :, None], places[:, None, :]]
        return ((weights[:, None] @ within)[:, 0] * weights).sum(1)

    def inner_products(self, first: Tensor, second: Tensor) -> Tensor:
        """Return Σ w ψ · Σ w' ψ'."""
        return ((first[:, None] @ self.products)[:, 0] * second).sum(1)


@dataclass(frozen=True)
class ScoreProducts:
    """E[‖ψ‖²] by the bin of a sample, `norms` [C], and E[ψ·ψ'] of two of a prompt, `means` [C, C].

    A sample belongs to the bin of its mid-rank: the share of worse rewards of its prompt, and half
    of the share of equal ones.
    """

    norms: Tensor
    means: Tensor
    edges: tuple[float, ...] = EDGES

    def bins(self, midranks: Tensor) -> Tensor:
        """Return the bins of mid-ranks."""
        return torch.bucketize(midranks.contiguous(), midranks.new_tensor(self.edges))

    def second_moments(self, weights: Tensor, bins: Tensor) -> Tensor:
        """Return E‖Σ w ψ‖² of groups, given their weights and bins [..., n]."""
        alone = (weights.square() * (self.norms - self.means.diagonal())[bins]).sum(-1)
        return alone + self.inner_products(weights, bins, weights, bins)

    def inner_products(self, first: Tensor, bins: Tensor, second: Tensor, others: Tensor) -> Tensor:
        """Return E[Σ w ψ · Σ w' ψ'] of groups without a common sample."""
        return ((self._sums(first, bins) @ self.means) * self._sums(second, others)).sum(-1)

    def _sums(self, weights: Tensor, bins: Tensor) -> Tensor:
        """Return the sums of weights [..., C]."""
        sums = weights.new_zeros(*weights.shape[:-1], len(self.norms))
        return sums.scatter_add_(-1, bins, weights)


@dataclass(frozen=True)
class RankedScores:
    """Scores with means by the bins of their samples, [P, M]."""

    by_rank: ScoreProducts
    bins: Tensor

    def second_moments(self, weights: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Return E‖Σ w ψ‖²."""
        return self.by_rank.second_moments(weights, self.bins[rows[:, None], places])

    def inner_products(self, first: Tensor, second: Tensor) -> Tensor:
        """Return E[Σ w ψ · Σ w' ψ']."""
        return self.by_rank.inner_products(first, self.bins, second, self.bins)


def mid_ranks(rewards: Tensor) -> Tensor:
    """Return the mid-ranks of rewards [P, M] in their rows, from 0 to 1."""
    ordered, rewards = rewards.sort(1).values.contiguous(), rewards.contiguous()
    sums = sum(torch.searchsorted(ordered, rewards, right=right) for right in (False, True))
    return torch.as_tensor(sums).double() / (2 * rewards.shape[1])


def score_products_by_rank(
    rewards: Tensor, products: Tensor, edges: tuple[float, ...] = EDGES
) -> ScoreProducts:
    """Return the means over rewards [P, M] with products ψ·ψ [P, M, M].

    A bin without a sample, or a pair of bins without a pair, has the value of the nearest one.
    """
    count = len(edges) + 1
    norms, pairs = torch.zeros(2, count).double(), torch.zeros(2, count, count).double()
    places = torch.bucketize(mid_ranks(rewards), torch.tensor(edges).double())
    for bins, within in zip(places, products.double(), strict=True):
        member = one_hot(bins, count).double()
        squares, sizes = within.diagonal(), member.sum(0)
        norms += torch.stack([squares @ member, sizes])
        sums = member.T @ within @ member - torch.diag(squares @ member)
        pairs += torch.stack([sums, torch.outer(sizes, sizes) - torch.diag(sizes)])
    return ScoreProducts(_filled(*norms), _filled(*pairs), edges)


def _filled(sums: Tensor, counts: Tensor) -> Tensor:
    """Return sums over counts; where a count is 0, the value of the nearest other place."""
    filled = counts.nonzero().double()
    nearest = torch.cdist(torch.ones_like(counts).nonzero().double(), filled).argmin(1)
    means = sums[counts > 0] / counts[counts > 0]
    return means[nearest].view_as(counts)
