"""Mean and trace variance of an estimator over every group of n (estimators.md §7): complete enumeration, no sampling.

A group's weights depend on its rewards and trajectory weights only, and treat equal arguments alike. So trajectories that share
both form a class, and a sum over all A^n groups becomes one over the multisets of n classes, with multinomial probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations_with_replacement

import numpy as np
import torch
from torch import Tensor

# More multisets than this are not enumerated.
MULTISETS = 400_000
# Elements of the largest tensor held at a time.
CHUNK_ELEMENTS = 2**21

# rewards [S, n] and trajectory weights g [S, n] (or None) → weights w [S, n].
Weigh = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Outcomes:
    """Every trajectory of one instance: probabilities [A], rewards [A], g [A] (or None) and gram [A, A]; all float64."""

    probabilities: Tensor
    rewards: Tensor
    g: Tensor | None
    gram: Tensor

    @classmethod
    def of(cls, probabilities: Tensor, rewards: Tensor, g: Tensor | None, gram: Tensor) -> Outcomes:
        """Those of positive probability, which is made to sum to one exactly."""
        (kept,) = probabilities.nonzero(as_tuple=True)
        p = probabilities[kept]
        return cls(p / p.sum(), rewards[kept], None if g is None else g[kept], gram[kept][:, kept])

    def classes(self) -> tuple[Tensor, Tensor]:
        """What no weight can tell apart: (reward, g) of each class [C, 1 or 2], and the class of each trajectory [A]."""
        columns = [self.rewards] if self.g is None else [self.rewards, self.g]
        kinds, label = torch.unique(torch.stack(columns, 1), dim=0, return_inverse=True)
        return kinds, label

    def multisets(self, n: int) -> int:
        """The number of multisets of n classes."""
        return math.comb(len(self.classes()[0]) + n - 1, n)

    def centred(self, coefficients: Tensor) -> Tensor:
        """The coefficients c [A] of Σ_a c_a ψ_a that sum to zero.

        Σ_a p_a ψ_a = 0, so c may be moved along p: a constant added to all rewards then leaves no rounding behind.
        """
        return coefficients - coefficients.sum() * self.probabilities

    def inner(self, a: Tensor, b: Tensor) -> float:
        """⟨Σ_a a_a ψ_a, Σ_a b_a ψ_a⟩ of coefficients [A]."""
        return float(a @ self.gram @ b)


@dataclass(frozen=True)
class CompleteMoments:
    """E‖ĝ‖² (`second`) and the coefficients c [A] with E ĝ = Σ_a c_a ψ_a."""

    second: float
    coefficients: Tensor


def complete_moments(outcomes: Outcomes, n: int, weigh: Weigh) -> CompleteMoments:
    """The first two moments of ĝ = Σ_i w_i ψ_i over groups of n i.i.d. trajectories, without sampling.

    With classes c of probability P_c, mean score μ_c and mean squared norm D_c: given its classes, a group's scores are
    independent, so E‖ĝ‖² = E[ Σ_ij w_i w_j ⟨μ_i, μ_j⟩ + Σ_i w_i² (D_i − ‖μ_i‖²) ].
    """
    kinds, label = outcomes.classes()
    mass = torch.zeros(len(kinds), dtype=torch.float64).index_add_(0, label, outcomes.probabilities)
    within = outcomes.probabilities / mass[label]
    share = torch.zeros(len(kinds), len(label), dtype=torch.float64)
    share[label, torch.arange(len(label))] = within
    products = share @ outcomes.gram @ share.T
    spread = share @ outcomes.gram.diagonal() - products.diagonal()
    rewards, g = kinds[:, 0], kinds[:, 1] if outcomes.g is not None else None

    members, log_count = _multisets(len(kinds), n)
    totals, second = torch.zeros_like(mass), 0.0
    for rows, count in zip(*(_chunks(x, n) for x in (members, log_count)), strict=True):
        chance = (count + mass.log()[rows].sum(1)).exp()
        w = weigh(rewards[rows], None if g is None else g[rows]).double()
        totals.index_add_(0, rows.flatten(), (chance.unsqueeze(1) * w).flatten())
        if n <= len(kinds):
            pairs = products[rows.unsqueeze(2), rows.unsqueeze(1)]
            means = ((pairs @ w.unsqueeze(2)).squeeze(2) * w).sum(1)
        else:
            by_class = w.new_zeros(len(w), len(kinds)).scatter_add_(1, rows, w)
            means = ((by_class @ products) * by_class).sum(1)
        second += float(chance @ (means + (w.square() * spread[rows]).sum(1)))
    return CompleteMoments(second, totals[label] * within)


def _chunks(values: Tensor, n: int) -> tuple[Tensor, ...]:
    return torch.split(values, max(1, CHUNK_ELEMENTS // n**2))


@lru_cache(maxsize=4)
def _multisets(kinds: int, n: int) -> tuple[Tensor, Tensor]:
    """Every multiset of n out of `kinds` classes, [S, n] ascending, and the logarithm of how many orders each has, [S]."""
    count = math.comb(kinds + n - 1, n)
    flat = chain.from_iterable(combinations_with_replacement(range(kinds), n))
    members = torch.from_numpy(np.fromiter(flat, dtype=np.int64, count=count * n).reshape(count, n))
    log_count = torch.full((count,), math.lgamma(n + 1), dtype=torch.float64)
    run = torch.ones(count, dtype=torch.float64)  # Π of the positions within runs of equals is Π m_c!
    for i in range(1, n):
        run = torch.where(members[:, i] == members[:, i - 1], run + 1, torch.ones_like(run))
        log_count -= run.log()
    return members, log_count
