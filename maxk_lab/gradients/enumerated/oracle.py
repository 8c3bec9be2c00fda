"""The best symmetric baseline, `joint_optimum`, where all trajectories are listed.

Symmetric leave-one-out baselines b_i are any function of the multiset of the n − 1 other
trajectories, as every unbiased baseline of the catalogue is: the best leaves the lowest variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from maxk_lab.estimators import advantages
from maxk_lab.gradients.enumerated.moments import CHUNK_ELEMENTS, Outcomes, multisets

# More multisets of the n − 1 others than this are not solved for.
UNKNOWNS = 100_000
# Conjugate gradients end here, at the rounding of float64: the condition number is at most n, so
# some tens of steps do.
LEAST_RESIDUAL, MOST_STEPS = 1e-15, 500
# Smaller chances of a multiset have no root that one can divide by.
LEAST_CHANCE = 1e-290


@dataclass(frozen=True)
class JointOptimum:
    """The symmetric leave-one-out baseline of lowest variance for groups of n, as a correction.

    values: [C(A+n−2, n−1)], what is taken off the weights of `plain_baseline` for each multiset of
    n − 1 others. That is blind to an offset of the rewards, and so are the values.
    """

    n: int
    k: int
    kinds: int
    values: Tensor

    def weights(self, rewards: Tensor, rows: Tensor) -> Tensor:
        """Return the weights [S, n] of groups by rewards and outcomes, [S, n] in any order."""
        plain = advantages(rewards, baseline=plain_baseline(self.n, self.k), k=self.k)
        index = _index(self.kinds, self.n - 1)
        keys = index.keys[rows]
        # The key of a multiset is the sum of those of its outcomes: that of a group less one's own.
        return plain - self.values[index.positions(keys.sum(1, keepdim=True) - keys)]


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
    chance = (log_count + outcomes.probabilities.log()[members].sum(1)).exp()
    right = _right_side(outcomes, members, n, k)
    mean_square = float(outcomes.probabilities @ outcomes.gram.diagonal())  # E‖ψ‖²
    weighted_gram = outcomes.probabilities.unsqueeze(1) * outcomes.gram  # p_c ⟨ψ_c, ψ_a⟩, [c, a]
    # With `rest` = m − a, a multiset of n − 2, both m and m − a + c are rest and one outcome more:
    # `grown` [rest, c] says where that is listed, and `counts` [rest, a] is m_a.
    rest, _ = multisets(kinds, n - 2)
    index = _index(kinds, n - 1)
    grown = index.positions(index.keys[rest].sum(1, keepdim=True) + index.keys)
    counts = torch.stack([(rest == a).sum(1) + 1 for a in range(kinds)], 1).double()
    # The system is symmetric in the inner product weighted by the chances of the multisets: of
    # √chance b it is symmetric in the plain one.
    root = chance.clamp(min=LEAST_CHANCE).sqrt()

    def left_side(values: np.ndarray) -> np.ndarray:
        b = torch.from_numpy(values.ravel()) / root
        of_others = counts * (b[grown] @ weighted_gram)
        sums = (mean_square * b).index_add_(0, grown.flatten(), of_others.flatten())
        return (root * sums).numpy()

    solution, _ = cg(
        LinearOperator((unknowns, unknowns), left_side, dtype=np.float64),
        (root * right).numpy(),
        rtol=LEAST_RESIDUAL,
        maxiter=MOST_STEPS,
    )
    return JointOptimum(n, k, kinds, torch.from_numpy(solution) / root)


def _right_side(outcomes: Outcomes, members: Tensor, n: int, k: int) -> Tensor:
    """E[ψ_1 · ĝ_0 | the others] of each multiset of n − 1 others, [U]."""
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


def plain_baseline(n: int, k: int) -> str:
    """The unbiased baseline that every n and K have."""
    return "centred" if k < n else "subloo"


class _MultisetIndex:
    """The position of each multiset in `multisets(kinds, size)`, by the sum of its members' keys.

    A key is a random 62-bit number, and sums wrap around; no two multisets share a sum.
    """

    def __init__(self, kinds: int, size: int) -> None:
        members, _ = multisets(kinds, size)
        for seed in count():
            generator = torch.Generator().manual_seed(seed)
            self.keys = torch.randint(2**62, (kinds,), generator=generator)
            self._sums, self._positions = self.keys[members].sum(1).sort()
            if bool((self._sums.diff() > 0).all()):
                return

    def positions(self, sums: Tensor) -> Tensor:
        """The positions of the multisets with these sums of keys."""
        return self._positions[torch.searchsorted(self._sums, sums)]


@lru_cache(maxsize=2)
def _index(kinds: int, size: int) -> _MultisetIndex:
    return _MultisetIndex(kinds, size)
