"""Variance anatomy: the shares of tr Cov ĝ of single trajectories, of several, of the baseline.

Every function of n i.i.d. trajectories is its mean plus uncorrelated terms of one, two, …
trajectories (Hoeffding 1948). The first of them has the variance n · tr Cov E[ĝ|τ_1]; the rest of ĝ
= Σ s_i ψ_i − Σ b_i ψ_i are the higher terms of the two sums. With s the same estimator's weights
without a baseline and b = s − w whatever the baseline takes off, be it a function of the others or
of sample i as well, the four parts sum to tr Cov ĝ for biased estimators, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.gradients.enumerated.moments import Classes, CompleteMoments, Form, Outcomes


@dataclass(frozen=True)
class Anatomy:
    """The parts of tr Cov ĝ, which they sum to.

    variance_first: the first Hoeffding term of ĝ. variance_cross: the higher terms of Σ s_i ψ_i.
    variance_baseline: those of Σ b_i ψ_i. variance_interaction: −2 times the covariance of these
    two, of any sign.
    """

    variance_first: float
    variance_cross: float
    variance_baseline: float
    variance_interaction: float


class AnatomySums:
    """The sums over all groups that an anatomy is made of."""

    def __init__(self, classes: Classes, n: int) -> None:
        self._classes, self._n = classes, n
        size = len(classes)
        self._given = {
            name: torch.zeros(size, size, dtype=torch.float64) for name in ("own", "plain")
        }
        self._totals = {name: torch.zeros(size, dtype=torch.float64) for name in ("own", "plain")}
        self._plain_second, self._mixed_second = 0.0, 0.0
        self._has_plain = False

    def add(
        self, rows: Tensor, chance: Tensor, weights: Tensor, plain: Tensor | None, form: Form
    ) -> None:
        """Add groups of classes [S, n] of probability [S], with their weights [S, n].

        `plain` are the weights without the baseline, None where they are the same. `form` is
        `Classes.forms` of the groups.
        """
        self._collect("own", rows, chance, weights)
        if plain is None:
            return
        self._has_plain = True
        self._collect("plain", rows, chance, plain)
        self._plain_second += float(chance @ form(plain, plain))
        self._mixed_second += float(chance @ form(plain, weights))

    def anatomy(self, outcomes: Outcomes, moments: CompleteMoments) -> Anatomy:
        """Return the anatomy of all groups, all of them added; `moments` are of the weights."""
        first = self._first("own", "own")
        mean = outcomes.centred(moments.coefficients)
        own = moments.second - outcomes.inner(mean, mean) - first
        if not self._has_plain:
            return Anatomy(first, own, 0.0, 0.0)
        totals = self._totals["plain"][self._classes.label] * self._classes.within
        plain_mean = outcomes.centred(totals)
        plain = (
            self._plain_second
            - outcomes.inner(plain_mean, plain_mean)
            - self._first("plain", "plain")
        )
        mixed = self._mixed_second - outcomes.inner(plain_mean, mean) - self._first("plain", "own")
        # Σ b ψ is the difference of the two sums.
        return Anatomy(first, plain, plain - 2 * mixed + own, 2 * (mixed - plain))

    def _collect(self, name: str, rows: Tensor, chance: Tensor, weights: Tensor) -> None:
        """Add to E Σ_{i in d} w_i of each class d, [C], and to E[m_c Σ_{i in d} w_i], [C, C].

        m_c is the number of members of class c.
        """
        classes, size = self._classes, len(self._classes)
        weighted = chance.unsqueeze(1) * weights
        self._totals[name].index_add_(0, rows.flatten(), weighted.flatten())
        if self._n <= size:
            pairs = rows.unsqueeze(2) * size + rows.unsqueeze(1)
            values = weighted.unsqueeze(1).expand(pairs.shape)
            self._given[name].view(-1).index_add_(0, pairs.flatten(), values.flatten())
        else:
            counts = classes.by_class(rows, torch.ones_like(weights))
            self._given[name] += counts.T @ classes.by_class(rows, weighted)

    def _first(self, a: str, b: str) -> float:
        """n · tr Cov of the conditional means given τ_1.

        P(τ_1 in c | the group) = m_c/n by exchangeability, so E[Σ w_i ψ_i | τ_1] = u_c (ψ_1 − μ_c)
        + Σ_d Q_cd μ_d with Q_cd = E[m_c Σ_{i in d} w_i] / (n P_c) and u_c the mean weight of a
        member of c.
        """
        classes = self._classes
        scale = self._n * classes.mass
        inside = (self._totals[a] / scale) * (self._totals[b] / scale) * classes.spread
        moved = [
            classes.centred(self._given[x] / scale.unsqueeze(1) - self._totals[x])
            for x in ((a, b) if a != b else (a,))
        ]
        between = ((moved[0] @ classes.products) * moved[-1]).sum(1)
        return float(self._n * (classes.mass @ (inside + between)))
