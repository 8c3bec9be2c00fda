"""The baselines: lines on the gaps of sorted rewards, and means weighted by a number g.

s_i are the score weights, and rho_-i(k) is the Max@k value of the n-1 samples without i. Each row
gives the weights w = s - b, or their line. With an objective E[sum_j alpha_j R_(j:K)] in place of
the maximum, s and rho are those of the objective, and "at K-1" means its reduced form
(`Objective.exact_reduced`).
Imports no torch.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.rows import (
    PKPO,
    TRAJECTORY_WEIGHTS,
    BaselineRow,
    baseline,
    below_n,
    number_or_word,
    two_samples_up_to_n,
    two_up_to_n,
)
from maxk_lab.lazy import LazyModule
from maxk_lab.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from maxk_lab.estimators import lines
    from maxk_lab.estimators.lines import Line
else:  # they import numpy, which `list` and `plan` do without
    lines = LazyModule("maxk_lab.estimators.lines")

RLOO = "Kool, van Hoof and Welling 2019 (RLOO), Buy 4 REINFORCE samples"
_FITS = ("cross_fit", "oracle")
_FITTED = (
    "cross_fit: least squares on other instances; "
    "oracle: of lowest variance under the policy, by complete enumeration; both for gradient "
    "studies only"
)
_FIXED_ALPHA = "the n samples are i.i.d. and alpha does not depend on them"
_FOR_ONE: dict[str, Any] = {
    "where": lambda n, k: k == 1 and n >= 2,
    "constraint": "K = 1 and n >= 2",
    "objective": "J_1",
    "shift_invariant": True,
}
_OWN_INSIDE = "biased by O(1/n) in direction too: the own sample is in the mean"


@baseline("w_i = s_i", source=PKPO, off_policy=True, level=lambda at: Fraction(0))
def none(n: int, k: int, objective: Objective | None) -> Line:
    """No baseline."""
    return lines.score(n, k, objective)


@baseline(
    "w_i = s_i - mean(s)",
    where=below_n,
    source="K = 1: the numerator of GRPO, Shao et al. 2024, arXiv 2402.03300",
    biased="biased in scale only: (1 - K/n) times the gradient",
    scale=lambda n, k: 1.0 - k / n,
    factor="1 − K/n",
    shift_invariant=True,
    level=lambda at: at.group.mean(at.group.score()),
)
def group_mean(n: int, k: int, objective: Objective | None) -> Line:
    """Mean score weight of the group, own sample included: right direction, too short; `mean` at
    K = 1.
    """
    return lines.group_mean(n, k, objective)


@baseline(
    "w_i = s_i - (K/n) rho_-i(K) = n/(n-K) (s_i - mean(s))",
    where=below_n,
    source=f"K = 1: {RLOO}",
    shift_invariant=True,
    off_policy=True,
    level=lambda at: at.share * at.others.value(),
)
def centred(n: int, k: int, objective: Objective | None) -> Line:
    """Max@K value of the other samples, on the scale of s; `rloo` at K = 1."""
    return (n / (n - k)) * lines.group_mean(n, k, objective)


@baseline(
    "w_i = s_i - rho_-i(K)",
    where=below_n,
    source="Sample-LOO: the plain leave-one-out value as a baseline",
    level=lambda at: at.others.value(),
)
def sample_loo(n: int, k: int, objective: Objective | None) -> Line:
    """Max@K value of the other samples as it is: n/K too large for s."""
    return lines.score(n, k, objective) - lines.left_out_value(n, k, objective)


@baseline(
    "w_i = s_i - K/(n-1) rho_-i(K)",
    where=below_n,
    source=PKPO,
    level=lambda at: at.others.mean(at.others.score()),
)
def pkpo_sloo(n: int, k: int, objective: Objective | None) -> Line:
    """Mean score weight of the other samples among themselves (PKPO's sloo)."""
    return lines.score(n, k, objective) - (k / (n - 1)) * lines.left_out_value(n, k, objective)


@baseline(
    "w_i = s_i - (K/n) rho_-i(K-1)",
    where=two_up_to_n,
    source=PKPO,
    shift_invariant=True,
    off_policy=True,
    level=lambda at: at.share * at.others.reduced().value(),
)
def subloo(n: int, k: int, objective: Objective | None) -> Line:
    """Each subset's gap between best and second best, to its best (PKPO's sloo_minus_one).

    Exactly zero below rank K, never negative, monotone in the reward. For another objective: K/n
    times the mean of what the sample adds to its subsets, against the reduced objective without it.
    """
    return lines.subloo(n, k, objective)


def _two_or_centred(n: int, k: int, alpha: Any = 0.5) -> str | None:
    if k >= 2 or alpha == 0:
        return None
    return f"affine needs {affine.constraint}, got K = {k} and n = {n}"


@baseline(
    "w_i = s_i - (K/n) [rho_-i(K) - alpha (rho_-i(K) - rho_-i(K-1))]",
    where=below_n,
    constraint="2 <= K < n (1 <= K < n if alpha = 0)",
    refuse=_two_or_centred,
    source="this project",
    condition=_FIXED_ALPHA,
    shift_invariant=True,
    parameter=number_or_word("alpha", 0.5, f"0 is centred, 1 is subloo; {_FITTED}", _FITS),
    fits=_FITS,
    examples=(
        "affine[0.0]",
        "affine[1.0]",
        "affine[-0.75]",
        "affine[1.5]",
        *(f"affine[{word}]" for word in _FITS),
    ),
    level=lambda at, alpha: (
        at.share
        * ((1 - alpha) * at.others.value() + (alpha and alpha * at.others.reduced().value()))
    ),
)
def affine(n: int, k: int, objective: Objective | None = None, *, alpha: float) -> Line:
    """Between centred (alpha = 0) and subloo (alpha = 1), and beyond."""
    line: Line = (1.0 - alpha) * centred(n, k, objective)
    return line + alpha * subloo(n, k, objective) if alpha else line


def _rungs(n: int, k: int, alpha: Any = None) -> str | None:
    if isinstance(alpha, tuple) and len(alpha) != k:
        return f"ladder needs one coefficient per rung 1..K, got {len(alpha)} and K = {k}"
    if isinstance(alpha, tuple) and abs(math.fsum(alpha) - 1.0) > 1e-9:
        return f"ladder needs coefficients whose sum is 1, got {math.fsum(alpha)}"
    return None


@baseline(
    "w_i = s_i - (K/n) sum_k<=K alpha_k rho_-i(k), sum_k alpha_k = 1",
    where=lambda n, k: 2 <= k < n,
    constraint="2 <= K < n",
    refuse=_rungs,
    source="this project",
    condition=_FIXED_ALPHA,
    shift_invariant=True,
    parameter=number_or_word(
        "alpha", "cross_fit", f"alpha_1 to alpha_K, whose sum is 1; {_FITTED}", _FITS, several=True
    ),
    fits=_FITS,
    dimension=lambda k: k - 1,
    examples=(
        "ladder[oracle]",
        "ladder[0.25 0.75]",
        "ladder[0.5 -1.0 1.5]",
    ),
    level=lambda at, alpha: (
        at.share
        * sum(
            (a * (at.others.value(rung) - at.others.value()) for rung, a in enumerate(alpha, 1)),
            at.others.value(),
        )
    ),
)
def ladder(n: int, k: int, alpha: tuple[float, ...]) -> Line:
    """Weighted mean of the Max@k values of the other samples for every k up to K.

    The coefficient of rung K is what is left of 1, whether it is in `alpha` or not.
    """
    line: Line = centred(n, k, None)
    for rung, share in enumerate(alpha, 1):
        if share and rung < k:
            gain = lines.left_out_value(n, k) - lines.left_out_value(n, rung)
            line = line + share * ((k / n) * gain)
    return line


@baseline(
    "w_i = s_i - (K/n) c",
    source="this project; at K = 1: Greensmith, Bartlett and Baxter 2004, JMLR 5",
    condition="the n samples are i.i.d. and c does not depend on them",
    parameter=Setting(
        "c",
        Literal["oracle"],
        "oracle",
        "in units of reward: of lowest variance under the policy, by complete enumeration",
    ),
    fits=("oracle",),
    level=lambda at, c: at.share * c,
)
def constant(n: int, k: int, c: float) -> Line:
    """The best constant reward level, on the scale of s."""
    return lines.score(n, k) - (k / n) * c


@baseline(
    "w_i = s_i - b(tau_-i), b the symmetric function of the other trajectories of least total "
    "variance",
    where=two_samples_up_to_n,
    source="this project",
    condition="the n samples are i.i.d. and b is computed from the policy, by complete enumeration",
    shift_invariant=True,
    fits=("oracle",),
    level=lambda at, coefficients: coefficients[at.i],
)
def joint_optimum(rewards: Tensor, k: int, coefficients: Tensor) -> Tensor:
    """The best of all symmetric leave-one-out baselines: a bound for every other, not one to train
    with.
    """
    from maxk_lab.estimators.ranked import apply_line

    return apply_line(lines.score(rewards.shape[-1], k), rewards) - coefficients


@baseline(
    "w_i = (R_i - mean(R)) / n",
    source="Liu et al. 2025 (Dr. GRPO), arXiv 2503.20783",
    biased="biased in scale only: (n-1)/n times the gradient",
    scale=lambda n, k: (n - 1) / n,
    factor="1 − 1/n",
    level=lambda at: at.share * at.group.mean(),
    **_FOR_ONE,
)
def mean(n: int, k: int) -> Line:
    """Mean reward of the group, own sample included (Dr. GRPO): group_mean at K = 1."""
    return lines.group_mean(n, k)


@baseline(
    "w_i = (R_i - mean of the other R) / n = (R_i - mean(R)) / (n-1)",
    source=RLOO,
    level=lambda at: at.share * at.others.mean(),
    **_FOR_ONE,
)
def rloo(n: int, k: int) -> Line:
    """Mean reward of the other samples: centred at K = 1."""
    line: Line = centred(n, k, None)
    return line


def _pair(name: str, kind: str, words: str, source: str) -> tuple[BaselineRow, BaselineRow]:
    """The weighted means of the rewards: with the own sample, biased, and without it."""

    def with_own(rewards: Tensor, k: int, g: Tensor) -> Tensor:
        from maxk_lab.estimators.weighted_means import subtract_mean

        return subtract_mean(rewards, g)

    def without_own(rewards: Tensor, k: int, g: Tensor) -> Tensor:
        from maxk_lab.estimators.weighted_means import subtract_mean_of_others

        return subtract_mean_of_others(rewards, g)

    with_own.__doc__ = f"Mean reward of the group, own sample included, weighted by {words}."
    without_own.__doc__ = f"Mean reward of the other samples, weighted by {words}."
    return (
        baseline(
            f"w_i = [R_i - sum_j g_j R_j / sum_j g_j] / n, g = {kind}",
            name=name,
            source=source,
            biased=_OWN_INSIDE,
            trajectory_weight=kind,
            level=lambda at: at.share * at.group.mean(),
            **_FOR_ONE,
        )(with_own),
        baseline(
            f"w_i = [R_i - sum_j!=i g_j R_j / sum_j!=i g_j] / n, g = {kind}",
            name=f"{name}_loo",
            source=f"{source}, without the own sample",
            trajectory_weight=kind,
            level=lambda at: at.share * at.others.mean(),
            **_FOR_ONE,
        )(without_own),
    )


opo, opo_loo = _pair("opo", "length", "length", "Hao et al. 2025 (OPO), arXiv 2505.23585")
otb, otb_loo = _pair(
    "otb",
    "logit_proxy",
    "the logit proxy of the squared score norm",
    "Li et al. 2026 (OTB), arXiv 2602.07078; at trajectory level, as in verl",
)
eob, eob_loo = _pair(
    "eob",
    "grad_norm",
    "the exact squared score norm",
    "Greensmith, Bartlett and Baxter 2004, JMLR 5; estimated in the group",
)


@baseline(
    "w_i = s_i - (n-1)/n sum_j!=i g_j s_j(-i) / sum_j!=i g_j",
    where=below_n,
    source="this project; uniform is centred; K = 1: rloo, opo_loo, otb_loo, eob_loo",
    shift_invariant=True,
    parameter=Setting(
        "kind",
        Literal[tuple(TRAJECTORY_WEIGHTS)],
        "grad_norm",
        "g: " + "; ".join(f"{kind} is {what}" for kind, what in TRAJECTORY_WEIGHTS.items()),
    ),
    examples=("optimal[uniform]", "optimal[length]", "optimal[logit_proxy]"),
    level=lambda at, kind: Fraction(at.n - 1, at.n) * at.others.mean(at.others.score()),
)
def optimal(rewards: Tensor, k: int, kind: str, g: Tensor | None = None) -> Tensor:
    """Weighted mean of the other samples' score weights: aims at the lowest variance of one
    sample's term.

    s(-i) are the score weights of the n-1 other samples among themselves. With equal g, and with
    any g at n = K + 1, it is `centred`. With g = ||grad log pi||^2 it estimates the baseline of
    lowest variance for one sample; for K > 1 the samples' cross terms are left out of that optimum.
    """
    from maxk_lab.estimators.ranked import apply_line
    from maxk_lab.estimators.weighted_means import optimal_weights

    if g is None:
        return apply_line(centred(rewards.shape[-1], k, None), rewards)
    return optimal_weights(rewards, g, k)


@baseline(
    "w_i = s_i - (K/n) [(1 - lambda) rho_-i(K) + lambda mean of rho(K) over the other prompts], "
    "lambda = v / (v + s)",
    where=below_n,
    source="Zeng et al. 2025 (James-Stein baseline), arXiv 2511.03710, lambda as in the authors' "
    "code; K > 1: this project",
    condition="the n samples are i.i.d. and independent of the groups of the other prompts",
    shift_invariant=True,
    across_prompts=True,
)
def shrinkage(rewards: Tensor, k: int) -> Tensor:
    """Max@K value of the other samples, shrunk towards its mean over the other prompts.

    rewards `[P, ..., n]` of P prompts. v is the mean jackknife variance of rho(K) in the groups of
    the other prompts, var(R) / n at K = 1, and s the variance of rho(K) between these groups. With
    one prompt it is centred. Unlike the authors' code, no 1e-6 is added to v + s.
    """
    from maxk_lab.estimators.weighted_means import shrinkage_weights

    return shrinkage_weights(rewards, k)
