"""Variance anatomy: the shares of tr Cov ĝ of single trajectories, of several, of the baseline.

Every function of n i.i.d. trajectories is its mean plus uncorrelated terms of one, two, …
trajectories (Hoeffding 1948). The first of them has the variance n · tr Cov E[ĝ|τ_1]; the rest of ĝ
= Σ s_i ψ_i − Σ b_i ψ_i are the higher terms of the two sums. With s the same estimator's weights
without a baseline and b = s − w whatever the baseline takes off, be it a function of the others or
of sample i as well, the four parts sum to tr Cov ĝ for biased estimators, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from maxk_lab.gradients.enumerated.moments import MomentSums, Outcomes


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


def anatomy(
    outcomes: Outcomes, n: int, own: MomentSums, plain: MomentSums | None, mixed: float
) -> Anatomy:
    """Return the anatomy of all groups of n: `own` are the sums of the weights w.

    `plain` are those of the weights without the baseline, None where they are the same, and
    `mixed` is E⟨ĝ, the same without the baseline⟩.
    """

    def mean(sums: MomentSums) -> Tensor:
        return outcomes.centred(sums.coefficients)

    def higher(a: MomentSums, b: MomentSums, second: float) -> float:
        """Terms of several trajectories: of E⟨ĝ(a), ĝ(b)⟩, without means and first terms."""
        return second - outcomes.inner(mean(a), mean(b)) - _first(a, b, n)

    first, of_own = _first(own, own, n), higher(own, own, own.second)
    if plain is None:
        return Anatomy(first, of_own, 0.0, 0.0)
    of_plain, of_both = higher(plain, plain, plain.second), higher(plain, own, mixed)
    # Σ b ψ is the difference of the two sums.
    return Anatomy(first, of_plain, of_plain - 2 * of_both + of_own, 2 * (of_both - of_plain))


def _first(a: MomentSums, b: MomentSums, n: int) -> float:
    """n · tr Cov of the conditional means given τ_1.

    P(τ_1 in c | the group) = m_c/n by exchangeability, so E[Σ w_i ψ_i | τ_1] = u_c (ψ_1 − μ_c)
    + Σ_d Q_cd μ_d with Q_cd = E[m_c Σ_{i in d} w_i] / (n P_c) and u_c the mean weight of a
    member of c.
    """
    classes = a.classes
    scale = n * classes.mass
    inside = (a.totals / scale) * (b.totals / scale) * classes.spread
    moved = [
        classes.centred(sums.given / scale.unsqueeze(1) - sums.totals)
        for sums in ((a, b) if a is not b else (a,))
    ]
    between = ((moved[0] @ classes.products) * moved[-1]).sum(1)
    return float(n * (classes.mass @ (inside + between)))
