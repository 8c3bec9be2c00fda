"""Quadratic forms of score weights on groups of n, by the Gram matrix or by the gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.gradients.scores.pool import ScorePool


class GroupedForms(ABC):
    """Groups of n under one partition of the pool, `order` [I, U, Rep, n]: U blocks an instance.

    Rewards and ratios have this shape, too.
    """

    def __init__(self, pool: ScorePool, order: Tensor) -> None:
        self.instances, self.blocks, self.replicates, self.n = order.shape
        flat = order.reshape(self.instances, -1)
        self.rewards = pool.rewards.gather(1, flat).view(order.shape)
        self.ratios = pool.ratios.gather(1, flat).view(order.shape)
        self.rows = pool.rows.gather(1, flat).view(order.shape)
        self._pool, self._flat = pool, flat

    def weights(
        self, estimator: str, baseline: str, k: int, coefficients: Tensor | None = None
    ) -> Tensor:
        """The weights of every group, [I, U, Rep, n]; `coefficients` are the pair's fitted ones."""
        method = Method.parse(estimator, baseline, k)
        kind = method.needed_weight
        g = {} if kind is None else {kind: self._pool.trajectory_weight(kind).gather(1, self._flat)}
        return method.weights(
            self.rewards,
            trajectory_weights={
                kind: values.view(self.rewards.shape) for kind, values in g.items()
            },
            ratios=self.ratios if method.needs_ratios else None,
            coefficients=coefficients,
        )

    @abstractmethod
    def products(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ⟨Σ_i a_i ψ_i, Σ_i b_i ψ_i⟩ of every group, [I, U, Rep, P, Q].

        a is [I, U, Rep, n, P] and b [I, U, Rep, n, Q].
        """

    @abstractmethod
    def within(self, a: Tensor, b: Tensor) -> Tensor:
        """Σ_r ⟨ĝ_r(a), ĝ_r(b)⟩ per block: weights [I, U, Rep, n] → [I, U]."""

    @abstractmethod
    def totals(self, weights: Tensor) -> Tensor:
        """Σ_r ĝ_r per block, in whichever way `across` and `toward` read it: [I, U, ...]."""

    @abstractmethod
    def across(self, total_a: Tensor, total_b: Tensor) -> Tensor:
        """Return ⟨mean ĝ(a) of block b, mean ĝ(b) of block c⟩ from their totals: [I, B, B]."""

    @abstractmethod
    def toward(self, weights: Tensor, total: Tensor, position: int) -> Tensor:
        """mean_r ⟨ĝ_r, ∇J⟩ per block, for the objective at `position` of the pool: [I, U]."""


class GramForms(GroupedForms):
    """Forms by the Gram matrix of the pool."""

    def __init__(self, pool: ScorePool, order: Tensor) -> None:
        super().__init__(pool, order)
        self.table = pool.gram
        distinct = pool.gram.shape[1]
        pairs = (self.rows.unsqueeze(-1) * distinct + self.rows.unsqueeze(-2)).reshape(
            self.instances, -1
        )
        self.gram = pool.gram.view(self.instances, -1).gather(1, pairs).view(*order.shape, self.n)

    def products(self, a: Tensor, b: Tensor) -> Tensor:
        return a.mT @ self.gram @ b

    def within(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("iurm,iurmk,iurk->iu", a, self.gram, b)

    def totals(self, weights: Tensor) -> Tensor:
        """Return the estimates as weights on the distinct trajectories: [I, U, A]."""
        sums = weights.new_zeros(len(weights), self.blocks, self.table.shape[1])
        return sums.scatter_add_(2, self.rows.flatten(2), weights.flatten(2))

    def across(self, total_a: Tensor, total_b: Tensor) -> Tensor:
        return (total_a @ self.table @ total_b.mT) / self.replicates**2

    def toward(self, weights: Tensor, total: Tensor, position: int) -> Tensor:
        return torch.einsum("iua,ia->iu", total, self._pool.inner[..., position]) / self.replicates


class ScoreForms(GroupedForms):
    """Forms by the gradient estimates, P numbers each: for policies of few parameters.

    The number of trajectories does not matter.
    """

    def __init__(self, pool: ScorePool, order: Tensor) -> None:
        super().__init__(pool, order)
        width = pool.scores.shape[2]
        index = self.rows.view(self.instances, -1, 1).expand(-1, -1, width)
        self.scores = pool.scores.gather(1, index).view(*order.shape, width)

    def estimates(self, weights: Tensor) -> Tensor:
        """ĝ_r = Σ_i w_i ψ_i: [I, U, Rep, n] → [I, U, Rep, P]."""
        return (weights.unsqueeze(-2) @ self.scores).squeeze(-2)

    def products(self, a: Tensor, b: Tensor) -> Tensor:
        return (a.mT @ self.scores) @ (b.mT @ self.scores).mT

    def within(self, a: Tensor, b: Tensor) -> Tensor:
        return (self.estimates(a) * self.estimates(b)).sum((2, 3))

    def totals(self, weights: Tensor) -> Tensor:
        """Return the estimates as vectors: [I, U, P]."""
        return self.estimates(weights).sum(2)

    def across(self, total_a: Tensor, total_b: Tensor) -> Tensor:
        return (total_a @ total_b.mT) / self.replicates**2

    def toward(self, weights: Tensor, total: Tensor, position: int) -> Tensor:
        inner = self._pool.inner[..., position].gather(1, self.rows.flatten(1)).view(weights.shape)
        return (weights * inner).sum((2, 3)) / self.replicates


def grouped_forms(pool: ScorePool, order: Tensor) -> GroupedForms:
    """The forms of the groups `order` [I, U, Rep, n] by what the pool keeps of its scores."""
    return ScoreForms(pool, order) if pool.scores.shape[1] else GramForms(pool, order)
