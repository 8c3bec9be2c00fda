"""The rows of the estimators of L-statistics other than the maximum. Imports no torch."""

from __future__ import annotations

from maxk_lab.estimators.forms import FORMS
from maxk_lab.estimators.methods.kinds import ObjectiveRow

ORDER_GRAD = "OrderGrad, arXiv 2606.06096"


def _form(
    name: str, meaning: str, alpha: str, examples: tuple[str, ...] = (), constraint: str = ""
) -> ObjectiveRow:
    """The estimator of one form of L-statistic; `alpha` are its weights in words or symbols."""
    return ObjectiveRow(
        name=name,
        meaning=f"gradient of the expected {meaning}",
        formula=(
            "s_i = sum of L over the K-subsets that contain i, over C(n,K); L = sum_j "
            f"alpha_j R_(j:K), {alpha}"
        ),
        unbiased=True,
        objective="L_K",
        constraint=constraint,
        parameter=FORMS[name].parameter,
        examples=examples,
        implementation="maxk_lab.estimators.methods.maxk:maxk",
        twin="maxk_lab.estimators.reference.estimators:of_baseline",
        citation=ORDER_GRAD,
    )


L_STATISTIC_ROWS: tuple[ObjectiveRow, ...] = (
    _form(
        "top_m",
        "mean of the m best of K rewards",
        "alpha = 1/m on the m best",
        ("top_m[1]", "top_m[3]"),
        "m <= K <= n",
    ),
    _form(
        "cvar_upper",
        "mean of the best share q of K rewards (upper conditional value at risk)",
        "alpha spreads 1 evenly over the best q K, in part on the one at the boundary",
        ("cvar_upper[0.7]", "cvar_upper[1.0]"),
    ),
    _form(
        "cvar_lower",
        "mean of the worst share q of K rewards (lower conditional value at risk)",
        "alpha spreads 1 evenly over the worst q K, in part on the one at the boundary",
        ("cvar_lower[0.7]",),
    ),
    _form(
        "median",
        "median of K rewards",
        "alpha = 1 on the middle one, or 1/2 on the middle two",
    ),
    _form(
        "trimmed_mean",
        "mean of K rewards without the best and the worst share p",
        "alpha is even but for p K cut off at either end, in part on the one at the boundary",
        ("trimmed_mean[0.0]", "trimmed_mean[0.35]"),
    ),
    _form(
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
    ),
)
