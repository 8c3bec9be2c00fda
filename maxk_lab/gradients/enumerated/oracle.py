"""The best constant and the best symmetric baseline, where all trajectories are listed.

Symmetric leave-one-out baselines b_i are any function of the multiset of the n − 1 other
trajectories: every unbiased baseline of the catalogue is one of them, so the variance that the best
of them leaves is what the others are to be measured against.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from maxk_lab.estimators import advantages
from maxk_lab.gradients.enumerated.moments import CHUNK_ELEMENTS, Outcomes
from maxk_lab.gradients.enumerated.multisets import multisets

# More multisets of the n − 1 others than this are not solved for.
UNKNOWNS = 100_000
# Conjugate gradients end here, at the rounding of float64: the condition number is at most n, so
# some tens of steps do.
LEAST_RESIDUAL, MOST_STEPS = 1e-15, 500
# Smaller chances of a multiset have no root that one can divide by.
LEAST_CHANCE = 1e-290


def constant_level(outcomes: Outcomes, k: int) -> float:
    """Return the c of the constant baseline b_i = (K/n) c of least variance, for all n >= K alike.

    c* = { E[‖ψ‖² q(R)] − (K−1) ∫ ‖∇F(t)‖² F(t)^(K−2) dt } / E‖ψ‖², with F the distribution function
    of the reward under the policy and q(r) the expected maximum of r and K − 1 further rewards.
    Raises `ValueError` for k < 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    order = outcomes.rewards.argsort(stable=True)
    p, rewards = outcomes.probabilities[order], outcomes.rewards[order]
    gram = outcomes.gram[order][:, order]
    below = p.cumsum(0)[:-1]  # F between one reward and the next
    gaps = rewards.diff()
    # ∇F between rewards is the sum of p ψ up to there.
    slopes = (p.unsqueeze(1) * gram * p).cumsum(0).cumsum(1).diagonal()[:-1]
    beyond = gaps * (1 - below ** (k - 1))
    top = rewards[-1]
    excess = torch.cat([beyond.flip(0).cumsum(0).flip(0), beyond.new_zeros(1)])
    norms = p * gram.diagonal()
    second = (k - 1) * (slopes * below ** max(k - 2, 0) * gaps).sum()
    return float(top + ((norms * (rewards - top + excess)).sum() - second) / norms.sum())


@dataclass(frozen=True)
class JointOptimum:
    """The symmetric leave-one-out baseline of least variance for groups of n, as a correction.

    values: [C(A+n−2, n−1)], what is taken off the weights of `plain` for each multiset of n − 1
    others; `reduction` is how much that takes off E‖ĝ‖².
    """

    n: int
    k: int
    kinds: int
    values: Tensor
    reduction: float

    @property
    def plain(self) -> str:
        """Return the baseline that is corrected.

        It is shift-invariant, so that no offset of the rewards enters the values.
        """
        return _plain(self.n, self.k)

    def weights(self, rewards: Tensor, rows: Tensor) -> Tensor:
        """Return the weights [S, n] of groups by rewards and outcomes, [S, n] in any order."""
        plain = advantages(rewards, estimator="maxk", baseline=self.plain, k=self.k)
        ascending, order = rows.sort(dim=1)
        found = self.values[_index(self.kinds, self.n - 1)[_ranks_without(ascending, self.kinds)]]
        return plain - torch.zeros_like(found).scatter_(1, order, found)


def joint_optimum(outcomes: Outcomes, n: int, k: int, *, limit: int = UNKNOWNS) -> JointOptimum:
    """Return the best of all symmetric leave-one-out baselines for max@K.

    It is the least E‖Σ_i (s_i − b_i) ψ_i‖² over every b(multiset of n − 1).

    At the minimum E[ψ_1 · ĝ | the n − 1 others] = 0. With the ψ of the others independent of one
    another this says, of each multiset m that holds m_a times outcome a,
        E‖ψ‖² b(m) + Σ_a m_a Σ_c p_c ⟨ψ_a, ψ_c⟩ b(m − a + c) = E[ψ_1 · ĝ_0 | m],
    ĝ_0 the estimate without b: a system whose condition number is at most n, solved by conjugate
    gradients. Raises `ValueError` unless 1 <= k <= n and n >= 2, and where there are more than
    `limit` multisets.
    """
    if not (1 <= k <= n and n >= 2):
        raise ValueError(f"the joint optimum needs 1 <= K <= n and n >= 2, got n = {n} and K = {k}")
    kinds = len(outcomes.probabilities)
    unknowns = math.comb(kinds + n - 2, n - 1)
    if unknowns > limit:
        fits = max(m for m in range(1, n) if m == 1 or math.comb(kinds + m - 2, m - 1) <= limit)
        raise ValueError(
            f"the joint optimum of {kinds} outcomes in groups of n = {n} has {unknowns} "
            f"unknowns, at most {limit} are solved for; "
            + (f"n <= {fits} fits" if fits > 1 else "no n fits so many outcomes")
        )
    members, log_count = multisets(kinds, n - 1)
    log_p = outcomes.probabilities.log()
    chance = (log_count + log_p[members].sum(1)).exp()
    right = _right_side(outcomes, members, n, k)
    values = _solution(_Curvature(outcomes, n), right, chance)
    return JointOptimum(n, k, kinds, values, n * float((chance * right) @ values))


class _Curvature:
    """Return the map b → E‖ψ‖² b(m) + Σ_a m_a Σ_c p_c ⟨ψ_a, ψ_c⟩ b(m − a + c).

    It goes by way of the multisets of n − 2 that m − a is of.
    """

    def __init__(self, outcomes: Outcomes, n: int) -> None:
        kinds = len(outcomes.probabilities)
        self.norm = float(outcomes.probabilities @ outcomes.gram.diagonal())
        self.pull = outcomes.probabilities.unsqueeze(1) * outcomes.gram
        rest, _ = multisets(kinds, n - 2)
        grown = torch.stack([_with(rest, a) for a in range(kinds)], 1)
        self.grown = _index(kinds, n - 1)[_ranks(grown, kinds)]
        self.times = torch.stack([(rest == a).sum(1) + 1 for a in range(kinds)], 1).double()

    def __call__(self, b: Tensor) -> Tensor:
        pulled = self.times * (b[self.grown] @ self.pull)
        return (self.norm * b).index_add_(0, self.grown.flatten(), pulled.flatten())


def _solution(curvature: _Curvature, right: Tensor, chance: Tensor) -> Tensor:
    """Solve curvature(b) = right by conjugate gradients.

    The map is symmetric in the inner product weighted by the chances of the multisets: of √chance b
    it is symmetric in the plain one.
    """
    root = chance.clamp(min=LEAST_CHANCE).sqrt()

    def scaled(values: np.ndarray) -> np.ndarray:
        return (root * curvature(torch.from_numpy(values.ravel()) / root)).numpy()

    size = len(right)
    values, _ = cg(
        LinearOperator((size, size), scaled, dtype=np.float64),
        (root * right).numpy(),
        rtol=LEAST_RESIDUAL,
        maxiter=MOST_STEPS,
    )
    return torch.from_numpy(values) / root


def _right_side(outcomes: Outcomes, members: Tensor, n: int, k: int) -> Tensor:
    """E[ψ_1 · ĝ_0 | the others] of each multiset of n − 1 others, [U]."""
    p, kinds = outcomes.probabilities, len(outcomes.probabilities)
    parts = []
    for others in torch.split(members, max(1, CHUNK_ELEMENTS // (kinds * n))):
        own = torch.arange(kinds).view(1, -1, 1).expand(len(others), -1, 1)
        rows = torch.cat([own, others.unsqueeze(1).expand(-1, kinds, -1)], 2)
        weights = advantages(outcomes.rewards[rows], estimator="maxk", baseline=_plain(n, k), k=k)
        products = (weights * outcomes.gram[own.expand_as(rows), rows]).sum(2)
        parts.append(products @ p)
    return torch.cat(parts)


def _plain(n: int, k: int) -> str:
    return "centred" if k < n else "subloo"


def _with(rows: Tensor, a: int) -> Tensor:
    """Multisets [S, m] (ascending) with one `a` more, [S, m + 1] ascending."""
    own = torch.full((len(rows), 1), a, dtype=rows.dtype)
    return torch.cat([rows, own], 1).sort(dim=1).values


@lru_cache(maxsize=8)
def _binomials(kinds: int, size: int) -> Tensor:
    """Return C(c + i, i + 1) of class c at position i of an ascending multiset: [size, kinds]."""
    table = [[math.comb(c + i, i + 1) for c in range(kinds)] for i in range(size)]
    return torch.tensor(table, dtype=torch.long).view(size, kinds)


def _ranks(rows: Tensor, kinds: int) -> Tensor:
    """Return the number of each ascending multiset [..., m]: 0, 1, 2, … without a gap, [...].

    They are numbered in the order of their largest members.
    """
    size = rows.shape[-1]
    terms = _binomials(kinds, size)[torch.arange(size), rows]
    return terms.sum(-1)


def _ranks_without(rows: Tensor, kinds: int) -> Tensor:
    """The number of each ascending multiset [S, n] without its i-th member, for every i: [S, n]."""
    n = rows.shape[1]
    table, place = _binomials(kinds, n), torch.arange(n)
    before = table[place, rows]
    after = table[
        (place - 1).clamp(min=0), rows
    ]  # a member after the removed one moves down by one position
    return before.cumsum(1) - before + after.flip(1).cumsum(1).flip(1) - after


@lru_cache(maxsize=2)
def _index(kinds: int, size: int) -> Tensor:
    """Where `multisets(kinds, size)` lists the multiset of each number, [S]."""
    members, _ = multisets(kinds, size)
    ranks = _ranks(members, kinds)
    index = torch.empty_like(ranks)
    index[ranks] = torch.arange(len(ranks))
    return index
