"""Mean and trace variance of an estimator over every group of n, enumerated without sampling.

A group's weights depend only on its rewards, trajectory weights and importance ratios, and equal
arguments get equal weights. Trajectories with equal arguments form a class. A sum over all A^n
groups is then a sum over the multisets of n classes, with multinomial probabilities.

Index: A trajectories, C classes, S groups, n samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations_with_replacement
from typing import Any

import numpy as np
import torch
from torch import Tensor

# The most groups, and the most members of all groups together, that are enumerated.
MULTISETS = 400_000
MEMBERS = 2**25
# Elements of the largest tensor in memory (2 MB fit the CPU cache: a third faster than more), and
# the least number of groups in a chunk.
CHUNK_ELEMENTS = 2**18
LEAST_CHUNK = 64

# rewards [S, n], trajectory weights g [S, n] (or None), importance ratios [S, n] (or None) →
# weights w [S, n].
Weigh = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]


@dataclass(frozen=True)
class Outcomes:
    """The trajectories of one instance: probabilities, rewards, g (or None), gram [A, A]; float64.

    All but gram are [A]. probabilities and gram belong to the policy π. If another policy draws the
    trajectories, `behaviour` [A] has its probabilities, and `ratios` [A] = probabilities /
    behaviour. Else both are None.
    """

    probabilities: Tensor
    rewards: Tensor
    g: Tensor | None
    gram: Tensor
    ratios: Tensor | None = None
    behaviour: Tensor | None = None

    def possible(self) -> Outcomes:
        """The outcomes with a positive probability; probabilities then sum to one exactly."""
        (rows,) = self.drawn.nonzero(as_tuple=True)
        columns = (self.probabilities, self.rewards, self.g, self.ratios, self.behaviour)
        p, rewards, g, ratios, b = (None if x is None else x[rows] for x in columns)
        assert p is not None
        assert rewards is not None
        b = None if b is None else b / b.sum()
        return Outcomes(p / p.sum(), rewards, g, self.gram[rows][:, rows], ratios, b)

    @property
    def drawn(self) -> Tensor:
        """The sampling probabilities [A] of the trajectories."""
        return self.probabilities if self.behaviour is None else self.behaviour

    @cached_property
    def classes(self) -> Classes:
        """The classes of trajectories with equal rewards, g and ratios."""
        return Classes(self)

    def enumerable(self, n: int) -> bool:
        """Return whether the groups of n are few enough to enumerate."""
        count = math.comb(len(self.classes) + n - 1, n)
        return count <= MULTISETS and count * n <= MEMBERS

    def centred(self, coefficients: Tensor) -> Tensor:
        """Return the coefficients c [..., A] of Σ_a c_a ψ_a that sum to zero.

        Because Σ_a p_a ψ_a = 0, a multiple of p can be subtracted from c. A constant added to all
        rewards then leaves no rounding error.
        """
        return coefficients - coefficients.sum(-1, keepdim=True) * self.probabilities

    def inner(self, a: Tensor, b: Tensor) -> float:
        """Return ⟨Σ_a a_a ψ_a, Σ_a b_a ψ_a⟩ of coefficients [A]."""
        return float(a @ self.gram @ b)


class Classes:
    """The C classes of an instance's trajectories with equal reward, g and ratio.

    rewards, g, ratios [C] (g and ratios may be None); mass [C], the sampling probability of each
    class; label [A], the class of each trajectory; within [A], its probability inside the class.
    """

    def __init__(self, outcomes: Outcomes) -> None:
        columns = (outcomes.rewards, outcomes.g, outcomes.ratios)
        table = torch.stack([column for column in columns if column is not None], 1)
        kinds, self.label = torch.unique(table, dim=0, return_inverse=True)
        values = iter(kinds.unbind(1))
        self.rewards = next(values)
        self.g = None if outcomes.g is None else next(values)
        self.ratios = None if outcomes.ratios is None else next(values)
        nothing = torch.zeros(len(kinds), dtype=torch.float64)
        self.mass = nothing.index_add(0, self.label, outcomes.drawn)
        self.within = outcomes.drawn / self.mass[self.label]
        self._gram = outcomes.gram

    def __len__(self) -> int:
        return len(self.mass)

    @cached_property
    def products(self) -> Tensor:
        """⟨μ_c, μ_d⟩ of the mean scores, [C, C]."""
        return self._share @ self._gram @ self._share.T

    @cached_property
    def spread(self) -> Tensor:
        """E‖ψ − μ_c‖² inside each class, [C]."""
        return self._share @ self._gram.diagonal() - self.products.diagonal()

    @cached_property
    def _share(self) -> Tensor:
        """`within` by class, [C, A]."""
        share = torch.zeros(len(self), len(self.label), dtype=torch.float64)
        share[self.label, torch.arange(len(self.label))] = self.within
        return share

    def groups(self, n: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (classes [S, n], probability [S]) of chunks of all multisets of n."""
        members, log_count = multisets(len(self), n)
        size = max(LEAST_CHUNK, CHUNK_ELEMENTS // n**2)
        for i in range(0, len(members), size):
            rows, count = members[i : i + size], log_count[i : i + size]
            chance = (count + self.mass.log()[rows].sum(1)).exp()
            possible = chance > 0  # skip groups whose probability underflows
            yield (rows, chance) if possible.all() else (rows[possible], chance[possible])

    def arguments(self, rows: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the arguments of `Weigh` for groups of classes [S, n]."""
        g = None if self.g is None else self.g[rows]
        return self.rewards[rows], g, None if self.ratios is None else self.ratios[rows]

    def expectation(self, n: int, of: Callable[[Tensor, Any], Tensor]) -> Tensor:
        """Return E of a function of the rewards and ratios [S, n] of a group, [S, ...] → [...]."""
        total = torch.zeros((), dtype=torch.float64)
        for rows, chance in self.groups(n):
            rewards, _, ratios = self.arguments(rows)
            total = total + chance @ of(rewards, ratios)
        return total

    def sum_classes(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Return the sum of the weights [S, n] of the members of each class: [S, C]."""
        return weights.new_zeros(len(weights), len(self)).scatter_add_(1, rows, weights)

    def squared_norms(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Return E‖Σ w_i ψ_i‖² [S] of groups of classes `rows` [S, n] with weights w [S, n].

        Given the classes, the scores are independent: Σ_ij w_i w_j ⟨μ_i, μ_j⟩ + Σ_i w_i² E‖ψ_i −
        μ_i‖².
        """
        if rows.shape[1] <= len(self):
            pairs = self.products[rows.unsqueeze(2), rows.unsqueeze(1)]
            means = ((pairs @ weights.unsqueeze(2)).squeeze(2) * weights).sum(1)
        else:
            sums = self.sum_classes(rows, weights)
            means = ((sums @ self.products) * sums).sum(1)
        return means + ((weights * weights) * self.spread[rows]).sum(1)


class MomentSums:
    """Sums over groups for the moments of ĝ = Σ_i w_i ψ_i.

    totals [C] are E Σ_{i in d} w_i of each class d, `second` is E‖ĝ‖².
    """

    def __init__(self, classes: Classes) -> None:
        self.classes, self.second = classes, 0.0
        self.totals = torch.zeros(len(classes), dtype=torch.float64)

    def add(self, rows: Tensor, chance: Tensor, weights: Tensor) -> None:
        """Add groups of classes [S, n] with probability [S] and weights [S, n]."""
        weighted = chance.unsqueeze(1) * weights
        self.totals.index_add_(0, rows.flatten(), weighted.flatten())
        self.second += float(chance @ self.classes.squared_norms(rows, weights))

    @property
    def coefficients(self) -> Tensor:
        """Return the c [A] with E ĝ = Σ_a c_a ψ_a."""
        return self.totals[self.classes.label] * self.classes.within


@lru_cache(maxsize=4)
def multisets(kinds: int, n: int) -> tuple[Tensor, Tensor]:
    """Return the multisets of n out of `kinds` classes, ascending [S, n], and log orders [S]."""
    count = math.comb(kinds + n - 1, n)
    flat = chain.from_iterable(combinations_with_replacement(range(kinds), n))
    members = torch.from_numpy(np.fromiter(flat, dtype=np.int64, count=count * n).reshape(count, n))
    log_count = torch.full((count,), math.lgamma(n + 1), dtype=torch.float64)
    run = torch.ones(count, dtype=torch.float64)
    for i in range(1, n):  # Π of the positions within runs of equal classes is Π m_c!
        run = torch.where(members[:, i] == members[:, i - 1], run + 1, torch.ones_like(run))
        log_count -= run.log()
    return members, log_count
