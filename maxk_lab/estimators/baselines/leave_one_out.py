"""The baselines of rewards alone: rules on the gaps of sorted rewards, one for each row.

s_i are the score weights, rho_-i(k) the Max@k value of the n-1 samples without i, and w = s - b is
what each rule gives. With an objective E[sum_j alpha_j R_(j:K)] in place of the maximum, s and rho
are those of the objective, and "at K-1" means its reduced form (`Objective.exact_reduced`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.estimators.engine import gaps, rules
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.rows import PKPO, baseline, number_or_word
from maxk_lab.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from maxk_lab.estimators.ranks.gaps import Rule

RLOO = "Kool, van Hoof and Welling 2019 (RLOO), Buy 4 REINFORCE samples"
_FITS = ("cross_fit", "oracle")
_FITTED = (
    "cross_fit: least squares on other instances; "
    "oracle: of lowest variance under the policy, by complete enumeration; both for gradient "
    "studies only"
)
_FIXED_ALPHA = "the n samples are i.i.d. and alpha does not depend on them"


@baseline("w_i = s_i", source=PKPO, off_policy=True, level=lambda at: Fraction(0))
def none(n: int, k: int, objective: Objective | None) -> Rule:
    """No baseline."""
    return rules.score(n, k, objective)


@baseline(
    "w_i = s_i - mean(s)",
    where="1 <= K < n",
    source="K = 1: the numerator of GRPO, Shao et al. 2024, arXiv 2402.03300",
    biased="biased in scale only: (1 - K/n) times the gradient",
    scale=lambda n, k: 1.0 - k / n,
    shift_invariant=True,
    level=lambda at: at.group.mean(at.group.score()),
)
def group_mean(n: int, k: int, objective: Objective | None) -> Rule:
    """Mean score weight of the group, own sample included: right direction, too short; `mean` at
    K = 1.
    """
    return rules.group_mean(n, k, objective)


@baseline(
    "w_i = s_i - (K/n) rho_-i(K) = n/(n-K) (s_i - mean(s))",
    where="1 <= K < n",
    source=f"K = 1: {RLOO}",
    shift_invariant=True,
    off_policy=True,
    level=lambda at: at.share * at.others.value(),
)
def centred(n: int, k: int, objective: Objective | None) -> Rule:
    """Max@K value of the other samples, on the scale of s; `rloo` at K = 1."""
    return (n / (n - k)) * rules.group_mean(n, k, objective)


@baseline(
    "w_i = s_i - rho_-i(K)",
    where="1 <= K < n",
    source="Sample-LOO: the plain leave-one-out value as a baseline",
    level=lambda at: at.others.value(),
)
def sample_loo(n: int, k: int, objective: Objective | None) -> Rule:
    """Max@K value of the other samples as it is: n/K too large for s."""
    return rules.score(n, k, objective) - rules.left_out_value(n, k, objective)


@baseline(
    "w_i = s_i - K/(n-1) rho_-i(K)",
    where="1 <= K < n",
    source=PKPO,
    level=lambda at: at.others.mean(at.others.score()),
)
def pkpo_sloo(n: int, k: int, objective: Objective | None) -> Rule:
    """Mean score weight of the other samples among themselves (PKPO's sloo)."""
    return rules.score(n, k, objective) - (k / (n - 1)) * rules.left_out_value(n, k, objective)


@baseline(
    "w_i = s_i - (K/n) rho_-i(K-1)",
    where="2 <= K <= n",
    source=PKPO,
    shift_invariant=True,
    off_policy=True,
    level=lambda at: at.share * at.others.reduced().value(),
)
def subloo(n: int, k: int, objective: Objective | None) -> Rule:
    """Each subset's gap between best and second best, to its best (PKPO's sloo_minus_one).

    Exactly zero below rank K, never negative, monotone in the reward. For another objective: the
    mean of what the sample adds to its subsets, against the reduced objective without it.
    """
    return rules.subloo(n, k, objective)


@baseline(
    "w_i = s_i - (K/n) [rho_-i(K) - alpha (rho_-i(K) - rho_-i(K-1))]",
    where="2 <= K < n or 1 <= K < n and alpha == 0",
    constraint="2 <= K < n (1 <= K < n if alpha = 0)",
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
def affine(n: int, k: int, objective: Objective | None = None, *, alpha: float) -> Rule:
    """Between centred (alpha = 0) and subloo (alpha = 1), and beyond."""
    rule: Rule = (1.0 - alpha) * centred(n, k, objective)
    return rule + alpha * subloo(n, k, objective) if alpha else rule


def _rungs(n: int, k: int, alpha: Any = None) -> str | None:
    if isinstance(alpha, tuple) and len(alpha) != k:
        return f"ladder needs one coefficient per rung 1..K, got {len(alpha)} and K = {k}"
    if isinstance(alpha, tuple) and abs(math.fsum(alpha) - 1.0) > 1e-9:
        return f"ladder needs coefficients whose sum is 1, got {math.fsum(alpha)}"
    return None


@baseline(
    "w_i = s_i - (K/n) sum_k<=K alpha_k rho_-i(k), sum_k alpha_k = 1",
    where="2 <= K < n",
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
def ladder(n: int, k: int, alpha: tuple[float, ...]) -> Rule:
    """Weighted mean of the Max@k values of the other samples for every k up to K.

    The coefficient of rung K is what is left of 1, whether it is in `alpha` or not.
    """
    rule: Rule = centred(n, k, None)
    for rung, share in enumerate(alpha, 1):
        if share and rung < k:
            gain = rules.left_out_value(n, k) - rules.left_out_value(n, rung)
            rule = rule + share * ((k / n) * gain)
    return rule


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
def constant(n: int, k: int, c: float) -> Rule:
    """The best constant reward level, on the scale of s."""
    return rules.score(n, k) - (k / n) * c


@baseline(
    "w_i = s_i - b(tau_-i), b the symmetric function of the other trajectories of least total "
    "variance",
    where="1 <= K <= n and n >= 2",
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
    return gaps.apply_rule(rules.score(rewards.shape[-1], k), rewards) - coefficients
