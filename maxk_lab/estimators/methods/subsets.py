"""The estimators of other statistics of K samples: L-statistics, and the maximum without overlap.

Those of L-statistics give their objective, whose weights are those of any baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.estimators.baselines.leave_one_out import centred
from maxk_lab.estimators.engine import gaps, rules
from maxk_lab.estimators.objectives import FORMS, Objective
from maxk_lab.estimators.parameters import spell
from maxk_lab.estimators.rows import PKPO, EstimatorRow, estimator
from maxk_lab.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor


def _l_statistic(
    name: str, meaning: str, alpha: str, examples: tuple[str, ...] = (), constraint: str = ""
) -> EstimatorRow:
    """The estimator of one form of L-statistic; `alpha` are its weights in words or symbols."""

    def objective(k: int, **parameter: Any) -> Objective:
        form = name + "".join(f"[{spell(value)}]" for value in parameter.values())
        return Objective(form, k)

    objective.__doc__ = f"Gradient of the expected {meaning}."
    return estimator(
        "s_i = sum of L over the K-subsets that contain i, over C(n,K); L = sum_j "
        f"alpha_j R_(j:K), {alpha}",
        name=name,
        source="OrderGrad, arXiv 2606.06096",
        objective="L_K",
        constraint=constraint,
        parameter=FORMS[name].parameter,
        examples=examples,
    )(objective)


top_m = _l_statistic(
    "top_m",
    "mean of the m best of K rewards",
    "alpha = 1/m on the m best",
    ("top_m[1]", "top_m[3]"),
    "m <= K <= n",
)
cvar_upper = _l_statistic(
    "cvar_upper",
    "mean of the best share q of K rewards (upper conditional value at risk)",
    "alpha spreads 1 evenly over the best q K, in part on the one at the boundary",
    ("cvar_upper[0.7]", "cvar_upper[1.0]"),
)
cvar_lower = _l_statistic(
    "cvar_lower",
    "mean of the worst share q of K rewards (lower conditional value at risk)",
    "alpha spreads 1 evenly over the worst q K, in part on the one at the boundary",
    ("cvar_lower[0.7]",),
)
median = _l_statistic(
    "median", "median of K rewards", "alpha = 1 on the middle one, or 1/2 on the middle two"
)
trimmed_mean = _l_statistic(
    "trimmed_mean",
    "mean of K rewards without the best and the worst share p",
    "alpha is even but for p K cut off at either end, in part on the one at the boundary",
    ("trimmed_mean[0.0]", "trimmed_mean[0.35]"),
)
l_statistic = _l_statistic(
    "l_statistic",
    "weighted sum of K sorted rewards",
    "alpha as given, worst reward first",
    (
        "l_statistic[0.0 1.0]",
        "l_statistic[-0.5 2.0]",
        "l_statistic[0.5 0.0 -1.5]",
        "l_statistic[0.1 0.2 0.3 0.4]",
    ),
    "K = the number of weights <= n",
)


@estimator(
    "w_i = (K/n) [max R of i's group - mean of the other groups' maxima (loo) or 0 (none)]",
    where="n % K == 0 and (baseline == 'none' or n >= 2 * K)",
    constraint="K divides n; for loo also n >= 2 K",
    source=f"{PKPO}, the baseline of its Figure 4",
    condition="the n samples are i.i.d. and grouped in drawing order",
    parameter=Setting(
        "baseline",
        Literal["none", "loo"],
        "none",
        "loo: minus the mean of the other groups' maxima",
    ),
    examples=("partitioned[loo]",),
    ordered=True,
)
def partitioned(rewards: Tensor, k: int, baseline: str) -> Tensor:
    """One maximum per disjoint group of K samples: what Max@K costs without subsets that share
    samples.
    """
    # Each maximum is one sample of an ordinary mean over the groups.
    best = rewards.detach().reshape(*rewards.shape[:-1], rewards.shape[-1] // k, k).amax(-1)
    rule_of = centred if baseline == "loo" else rules.score
    return gaps.apply_rule(rule_of(best.shape[-1], 1, None), best).repeat_interleave(k, dim=-1)
