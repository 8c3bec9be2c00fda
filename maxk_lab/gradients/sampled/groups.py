"""A pool cut into blocks of groups of n, and quadratic forms of score weights on them.

Index: I instances, S partitions, B blocks, Rep groups, n samples, M trajectories, P parameters.
"""

from __future__ import annotations

from functools import cache, cached_property

import torch
from torch import Tensor

from maxk_lab.errors import LabError, count
from maxk_lab.estimators.least_squares import Equations, family_terms
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.fitting import fit_on_others
from maxk_lab.gradients.sampled.blocks import KEPT, together
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.measures import LEAST_SAMPLE

# Blocks of an instance: their spread measures the error for these instances.
MOST_BLOCKS = 32
# With fewer groups, every group is a block. Else a block has at least two groups, so that
# partitions differ, and there are as many blocks as a minimum detectable bias needs.
FEW_GROUPS = 2 * LEAST_SAMPLE


def group_order(
    instances: int, size: int, n: int, partitions: int, seed: int, starts: int = 1
) -> Tensor:
    """Cut `size` trajectories of each instance into disjoint blocks, and the blocks into groups.

    Returns [I, S, B, Rep, n]: for each of S random partitions, the positions in the pool of the
    members of each group. All blocks have equal size. Blocks share no trajectory under any
    partition, so they are independent. The pool is i.i.d., so blocks are cut in drawing order; only
    the grouping inside a block is random. With several `starts`, member i of every group has start
    i mod their number, as trajectory j of the pool has start j mod their number. Raises
    `ValueError` for fewer than two groups.
    """
    turns = -(-n // starts)  # the most trajectories with one start in a group
    blocks, each = blocks_of(size // (turns * starts), partitions)
    if blocks < 2:
        forced = f", which takes {turns * starts} with {starts} forced starts" * (starts > 1)
        needed = f"of n = {n}{forced}; at least 2 are needed"
        raise ValueError(f"a pool of {size} holds {count(blocks, 'group')} {needed}")
    of_block = size // starts // blocks  # trajectories of each start
    generator = torch.Generator().manual_seed(derive_seed("partitions", seed, n))
    drawn = [
        torch.randperm(of_block, generator=generator)[: each * turns] + b * of_block
        for _ in range(partitions * instances)
        for b in range(blocks)
        for _ in range(starts)
    ]
    dealt = torch.stack(drawn).view(partitions, instances, blocks, starts, each, turns)
    member = torch.arange(n)
    order = dealt[..., member % starts, :, member // starts].movedim(0, -1)
    return (order * starts + member % starts).transpose(0, 1)


def blocks_of(groups: int, partitions: int) -> tuple[int, int]:
    """Return the number of blocks, and of groups in each.

    The number of blocks is divisible by the blocks of a record. Among such numbers it leaves the
    fewest groups over; ties go to the largest. It is at least half of the most possible.
    """
    least = 1 if partitions == 1 or groups < FEW_GROUPS else 2
    possible = [
        blocks
        for blocks in range(2, MOST_BLOCKS + 1)
        if blocks % together(blocks) == 0 and groups // blocks >= least
    ]
    if not possible:
        return groups, 1
    most = possible[-1]
    enough = (blocks for blocks in possible if blocks >= max(min(most, KEPT), most / 2))
    blocks = max(enough, key=lambda blocks: (blocks * (groups // blocks), blocks))
    return blocks, groups // blocks


class Groups:
    """The groups `order` [I, S, B, Rep, n] of a pool: B blocks an instance, Rep groups a block.

    Rewards, ratios and weights have the same shape. Quadratic forms come from the Gram matrix of
    the pool; a mean estimate is the vector of its weights on the rows of that matrix.
    """

    def __init__(self, pool: ScorePool, order: Tensor) -> None:
        self.shape = order.shape
        self.blocks, self.n = order.shape[2], order.shape[4]
        self.pool, self._positions = pool, order.flatten(1)
        self.rewards, self.ratios = self.gathered(pool.rewards), self.gathered(pool.ratios)
        self.rows = self.gathered(torch.stack([instance.rows for instance in pool.parts]))
        self._inner, self._ladder = cache(self._inner_of), cache(self._ladder_of)

    @property
    def replicates(self) -> int:
        """The number of groups of an instance under one partition."""
        return self.shape[2] * self.shape[3]

    def gathered(self, values: Tensor) -> Tensor:
        """Return values of the drawn trajectories [I, M] by group."""
        return values.gather(1, self._positions).view(self.shape)

    def weights(self, method: Method, coefficients: Tensor | None = None) -> Tensor:
        """The weights of every group; `coefficients` are the method's fitted coefficients."""
        kind = method.needed_weight
        by_kind = {} if kind is None else {kind: self.gathered(self.pool.trajectory_weight(kind))}
        return method.weights(
            self.rewards,
            trajectory_weights=by_kind,
            ratios=self.ratios if method.needs_ratios else None,
            coefficients=coefficients,
        )

    def coefficients(self, method: Method) -> Tensor | None:
        """The method's coefficients for `Method.weights`, [I, ..., D], or None without a fit.

        All groups of an instance have the same coefficients. Raises `LabError` for an oracle, which
        needs complete enumeration. Raises `ValueError` for a cross-fit of one instance, and for a
        pair that cannot run at this (n, K).
        """
        if method.fit is None:
            return None
        method.check_size(self.n)
        if method.fit == "oracle":
            raise LabError(
                f"{method.baseline.name} needs every group to be enumerated: set complete: true, "
                "with an environment, n and so few "
                "trajectories that this can be done"
            )
        baseline = method.baseline.row.name
        return self.cross_fit(method.k, baseline)[:, None, None, None]

    def cross_fit(self, k: int, baseline: str) -> Tensor:
        """Return the coefficients [I, D] for each instance from all others, of affine or ladder."""
        a, c = self._ladder(k)
        if baseline == "affine":  # the only direction of affine is the last of ladder
            a, c = a[..., -1:, -1:], c[..., -1:]
        return fit_on_others(Equations(a, c))

    def dot_with_truth(self, weights: Tensor, position: int) -> Tensor:
        """Return the mean ⟨ĝ, ∇J⟩ of every block for the objective at `position`: [I, B]."""
        return (weights * self._inner(position)).sum(4).mean((1, 3))

    @cached_property
    def gram(self) -> Tensor:
        """Return ψ·ψ within every group, [I, S, B, Rep, n, n]."""
        grams = [
            instance.products.reshape(-1)[
                len(instance.products) * rows.unsqueeze(-1) + rows.unsqueeze(-2)
            ]
            for instance, rows in zip(self.pool.parts, self.rows, strict=True)
        ]
        return torch.stack(grams)

    def products(self, a: Tensor, b: Tensor) -> Tensor:
        """⟨Σ_i a_i ψ_i, Σ_i b_i ψ_i⟩ of every group: [..., n, P], [..., n, Q] → [..., P, Q]."""
        return a.mT @ self.gram @ b

    def squares(self, weights: Tensor) -> Tensor:
        """Return ‖ĝ‖² of every group, [I, S, B, Rep]."""
        return ((self.gram @ weights.unsqueeze(-1)).squeeze(-1) * weights).sum(-1)

    def means(self, weights: Tensor) -> Tensor:
        """Return the mean ĝ of every block as `dots_between_blocks` reads it: [I, B, ...]."""
        rows = max(len(instance.products) for instance in self.pool.parts)
        sums = weights.new_zeros(len(weights), self.blocks, rows)
        rows_by_block = self.rows.transpose(1, 2).flatten(2)
        by_block = weights.transpose(1, 2).flatten(2)
        return sums.scatter_add_(2, rows_by_block, by_block) / (self.shape[1] * self.shape[3])

    def dots_between_blocks(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ⟨mean ĝ of block b, mean ĝ of block c⟩ of two `means`: [I, B, B]."""
        grams = [instance.products for instance in self.pool.parts]
        return torch.stack(
            [x[:, : len(g)] @ g @ y[:, : len(g)].T for x, g, y in zip(a, grams, b, strict=True)]
        )

    def _equations(self, k: int, baseline: str) -> Equations:
        w0, directions = family_terms(self.rewards, k, baseline)
        both = torch.cat([directions, w0.unsqueeze(-1)], -1)
        return Equations.from_products(self.products(directions, both))

    def _ladder_of(self, k: int) -> Equations:
        return self._equations(k, "ladder")

    def _inner_of(self, position: int) -> Tensor:
        parts = self.pool.parts
        return self.gathered(
            torch.stack([instance.inner[instance.rows, position] for instance in parts])
        )


class ScoreGroups(Groups):
    """Groups of a policy with few parameters: estimates are vectors of P numbers."""

    @cached_property
    def scores(self) -> Tensor:
        """ψ of every member, [I, S, B, Rep, n, P]."""
        scores = [instance.scores for instance in self.pool.parts if instance.scores is not None]
        return torch.stack([s[rows] for s, rows in zip(scores, self.rows, strict=True)])

    def products(self, a: Tensor, b: Tensor) -> Tensor:
        return (a.mT @ self.scores) @ (b.mT @ self.scores).mT

    def squares(self, weights: Tensor) -> Tensor:
        return (weights.unsqueeze(-2) @ self.scores).square().sum((-2, -1))

    def means(self, weights: Tensor) -> Tensor:
        return (weights.unsqueeze(-2) @ self.scores).squeeze(-2).mean((1, 3))

    def dots_between_blocks(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b.mT


def groups_of(pool: ScorePool, n: int, partitions: int, seed: int) -> Groups:
    """Return the groups of n of a pool, by Gram matrix or by scores."""
    instances, size = pool.rewards.shape
    order = group_order(instances, size, n, partitions, seed, pool.starts)
    return (Groups if pool.parts[0].scores is None else ScoreGroups)(pool, order)
