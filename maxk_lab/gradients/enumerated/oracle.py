"""The symmetric baseline of lowest variance, `joint_optimum`, if all trajectories are listed.

A symmetric leave-one-out baseline b_i is any function of the multiset of the n − 1 other
trajectories. Every unbiased baseline of the catalogue is symmetric. A outcomes, U multisets of n −
1, V of n − 2, S groups of n samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.estimators import advantages
from maxk_lab.gradients.enumerated.moments import CHUNK_ELEMENTS, Outcomes, multisets
from maxk_lab.gradients.plain_methods import plain_baseline

# The most multisets of n − 1 others: the matrix then has 128 MB.
UNKNOWNS = 4_000


@dataclass(frozen=True)
class JointOptimum:
    """The symmetric leave-one-out baseline of lowest variance for groups of n, as a correction.

    values: the correction to the weights of `plain_baseline`, by the sorted multiset of the n − 1
    others. Neither changes if a constant is added to the rewards.
    """

    n: int
    k: int
    values: dict[tuple[int, ...], float]

    def weights(self, rewards: Tensor, rows: Tensor) -> Tensor:
        """Return the weights [S, n] of groups by rewards and outcomes [S, n] in any order."""
        uncorrected = advantages(rewards, baseline=plain_baseline(self.n, self.k), k=self.k)
        levels = [
            [self.values[tuple(sorted(group[:i] + group[i + 1 :]))] for i in range(self.n)]
            for group in rows.tolist()
        ]
        return uncorrected - torch.tensor(levels, dtype=torch.float64).reshape(uncorrected.shape)


def joint_optimum(outcomes: Outcomes, n: int, k: int, *, limit: int = UNKNOWNS) -> JointOptimum:
    """Return the symmetric leave-one-out baseline of lowest variance for max@K.

    It minimises E‖Σ_i (s_i − b_i) ψ_i‖² over every b(multiset of n − 1).

    At the minimum E[ψ_1 · ĝ | the n − 1 others] = 0. The ψ of the others are independent. So for
    each multiset m, with m_a copies of outcome a,

        E‖ψ‖² b(m) + Σ_a m_a Σ_c p_c ⟨ψ_a, ψ_c⟩ b(m − a + c) = E[ψ_1 · ĝ_0 | m],

    where ĝ_0 is the estimate without b. The condition number of this system is at most n. Raises
    `ValueError` unless 1 <= k <= n and n >= 2, or if there are more than `limit` multisets.
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
            + (f"n <= {fits} fits" if fits > 1 else "no n fits")
        )
    members, _ = multisets(kinds, n - 1)
    keys = [tuple(multiset) for multiset in members.tolist()]
    position = {key: i for i, key in enumerate(keys)}
    # Let `rest` = m − a. Both m and m − a + c are `rest` plus one outcome; `grown` [V, A] has the
    # positions of these multisets.
    rest, _ = multisets(kinds, n - 2)
    grown = torch.tensor(
        [
            [position[tuple(sorted((*multiset, c)))] for c in range(kinds)]
            for multiset in rest.tolist()
        ]
    )
    counts = torch.stack([(rest == a).sum(1) + 1 for a in range(kinds)], 1).double()
    # m_a p_c ⟨ψ_a, ψ_c⟩ [V, a, c], in row m and column m − a + c.
    moved = counts.unsqueeze(2) * outcomes.gram * outcomes.probabilities
    mean_square = outcomes.probabilities @ outcomes.gram.diagonal()  # E‖ψ‖²
    matrix = mean_square * torch.eye(unknowns, dtype=torch.float64)
    index = (grown.unsqueeze(2).expand_as(moved), grown.unsqueeze(1).expand_as(moved))
    matrix.index_put_(index, moved, accumulate=True)
    solution = _right_side(outcomes, members, n, k)
    if mean_square > 0:  # else one trajectory is certain, and every baseline gives 0
        solution = torch.linalg.solve(matrix, solution)
    return JointOptimum(n, k, dict(zip(keys, solution.tolist(), strict=True)))


def _right_side(outcomes: Outcomes, members: Tensor, n: int, k: int) -> Tensor:
    """Return E[ψ_1 · ĝ_0 | the others] of each multiset of n − 1 others, [U]."""
    p, kinds = outcomes.probabilities, len(outcomes.probabilities)
    parts = []
    for others in torch.split(members, max(1, CHUNK_ELEMENTS // (kinds * n))):
        first = torch.arange(kinds).view(1, -1, 1).expand(len(others), -1, 1)
        rows = torch.cat([first, others.unsqueeze(1).expand(-1, kinds, -1)], 2)
        weights = advantages(
            outcomes.rewards[rows], estimator="maxk", baseline=plain_baseline(n, k), k=k
        )
        products = (weights * outcomes.gram[first.expand_as(rows), rows]).sum(2)
        parts.append(products @ p)
    return torch.cat(parts)
