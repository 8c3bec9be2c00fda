"""The project's own baselines: one catalogue row each. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from maxk_lab.estimators.baselines.kinds import BaselineRow, WeightedRow
from maxk_lab.estimators.baselines.rows_with_coefficients import FITTED_ROWS
from maxk_lab.estimators.kinds import TRAJECTORY_WEIGHTS
from maxk_lab.estimators.methods.rows import PKPO
from maxk_lab.settings import Setting


def _mean_pair(
    name: str, kind: str, meaning: str, citation: str
) -> tuple[BaselineRow, BaselineRow]:
    """The weighted means of the rewards: with the own sample, biased, and without it.

    Both are for K = 1; the second is unbiased.
    """
    own = BaselineRow(
        name=name,
        meaning=f"mean reward of the group, own sample included, weighted by {meaning}",
        formula=f"w_i = [R_i - sum_j g_j R_j / sum_j g_j] / n, g = {kind}",
        objective="J_1",
        unbiased=False,
        condition="biased by O(1/n) in direction too: the own sample is in the mean",
        shift_invariant=True,
        least_n=2,
        most_k=1,
        trajectory_weight=kind,
        implementation="maxk_lab.estimators.baselines.weighted_means:weighted_mean_weights",
        twin="maxk_lab.estimators.reference.baselines:weighted_mean",
        citation=citation,
    )
    others = replace(
        own,
        name=f"{name}_loo",
        meaning=f"mean reward of the other samples, weighted by {meaning}",
        formula=f"w_i = [R_i - sum_j!=i g_j R_j / sum_j!=i g_j] / n, g = {kind}",
        unbiased=True,
        condition="the n samples are i.i.d.",
        implementation="maxk_lab.estimators.baselines.weighted_means:weighted_loo_weights",
        twin="maxk_lab.estimators.reference.baselines:weighted_loo",
        citation=f"{citation}, without the own sample",
    )
    return own, others


BASELINE_ROWS: tuple[BaselineRow, ...] = (
    BaselineRow(
        name="none",
        meaning="no baseline",
        formula="w_i = s_i",
        unbiased=True,
        any_objective=True,
        off_policy=True,
        implementation="maxk_lab.estimators.methods.maxk:maxk_gradient_weights",
        twin="maxk_lab.estimators.reference.baselines:none",
        citation=PKPO,
    ),
    BaselineRow(
        name="group_mean",
        meaning=(
            "mean score weight of the group, own sample included: right direction, too "
            "short; `mean` at K = 1"
        ),
        formula="w_i = s_i - mean(s)",
        unbiased=False,
        condition="biased in scale only: (1 - K/n) times the gradient",
        shift_invariant=True,
        k_below_n=True,
        scale=lambda n, k: 1.0 - k / n,
        any_objective=True,
        implementation="maxk_lab.estimators.baselines.leave_one_out:group_mean_weights",
        twin="maxk_lab.estimators.reference.baselines:group_mean",
        citation="K = 1: the numerator of GRPO, Shao et al. 2024, arXiv 2402.03300",
    ),
    BaselineRow(
        name="centred",
        meaning="Max@K value of the other samples, on the scale of s; `rloo` at K = 1",
        formula="w_i = s_i - (K/n) rho_-i(K) = n/(n-K) (s_i - mean(s))",
        unbiased=True,
        shift_invariant=True,
        k_below_n=True,
        any_objective=True,
        off_policy=True,
        implementation="maxk_lab.estimators.baselines.leave_one_out:centred_weights",
        twin="maxk_lab.estimators.reference.baselines:centred",
        citation="K = 1: Kool, van Hoof and Welling 2019 (RLOO), Buy 4 REINFORCE samples",
    ),
    BaselineRow(
        name="sample_loo",
        meaning="Max@K value of the other samples as it is: n/K too large for s",
        formula="w_i = s_i - rho_-i(K)",
        unbiased=True,
        k_below_n=True,
        any_objective=True,
        implementation="maxk_lab.estimators.baselines.leave_one_out:sample_loo_weights",
        twin="maxk_lab.estimators.reference.baselines:sample_loo",
        citation="Sample-LOO: the plain leave-one-out value as a baseline",
    ),
    BaselineRow(
        name="pkpo_sloo",
        meaning="mean score weight of the other samples among themselves (PKPO's sloo)",
        formula="w_i = s_i - K/(n-1) rho_-i(K)",
        unbiased=True,
        k_below_n=True,
        any_objective=True,
        implementation="maxk_lab.estimators.baselines.leave_one_out:pkpo_sloo_weights",
        twin="maxk_lab.estimators.reference.baselines:pkpo_sloo",
        citation=PKPO,
    ),
    BaselineRow(
        name="subloo",
        meaning=(
            "each subset's gap between best and second best, to its best (PKPO's sloo_minus_one)"
        ),
        formula="w_i = s_i - (K/n) rho_-i(K-1)",
        unbiased=True,
        shift_invariant=True,
        least_k=2,
        any_objective=True,
        off_policy=True,
        implementation="maxk_lab.estimators.baselines.leave_one_out:subloo_weights",
        twin="maxk_lab.estimators.reference.baselines:subloo",
        citation=PKPO,
    ),
    *FITTED_ROWS,
    BaselineRow(
        name="mean",
        meaning="mean reward of the group, own sample included (Dr. GRPO): group_mean at K = 1",
        formula="w_i = (R_i - mean(R)) / n",
        objective="J_1",
        unbiased=False,
        condition="biased in scale only: (n-1)/n times the gradient",
        shift_invariant=True,
        least_n=2,
        most_k=1,
        scale=lambda n, k: (n - 1) / n,
        implementation="maxk_lab.estimators.baselines.weighted_means:mean_weights",
        twin="maxk_lab.estimators.reference.baselines:weighted_mean",
        citation="Liu et al. 2025 (Dr. GRPO), arXiv 2503.20783",
    ),
    BaselineRow(
        name="rloo",
        meaning="mean reward of the other samples: centred at K = 1",
        formula="w_i = (R_i - mean of the other R) / n = (R_i - mean(R)) / (n-1)",
        unbiased=True,
        objective="J_1",
        shift_invariant=True,
        least_n=2,
        most_k=1,
        implementation="maxk_lab.estimators.baselines.weighted_means:rloo_weights",
        twin="maxk_lab.estimators.reference.baselines:weighted_loo",
        citation="Kool, van Hoof and Welling 2019 (RLOO), Buy 4 REINFORCE samples",
    ),
    *_mean_pair("opo", "length", "length", "Hao et al. 2025 (OPO), arXiv 2505.23585"),
    *_mean_pair(
        "otb",
        "logit_proxy",
        "the logit proxy of the squared score norm",
        "verl's optimal token baseline, at trajectory level",
    ),
    *_mean_pair(
        "eob",
        "grad_norm",
        "the exact squared score norm",
        "Greensmith, Bartlett and Baxter 2004, JMLR 5; estimated in the group",
    ),
    WeightedRow(
        name="optimal",
        meaning=(
            "weighted mean of the other samples' score weights: aims at the least variance "
            "of one sample's term"
        ),
        formula="w_i = s_i - (n-1)/n sum_j!=i g_j s_j(-i) / sum_j!=i g_j",
        unbiased=True,
        shift_invariant=True,
        k_below_n=True,
        parameter=Setting(
            "kind",
            Literal[tuple(TRAJECTORY_WEIGHTS)],
            "grad_norm",
            "g: " + "; ".join(f"{kind} is {what}" for kind, what in TRAJECTORY_WEIGHTS.items()),
        ),
        examples=("optimal[uniform]", "optimal[length]", "optimal[logit_proxy]"),
        implementation="maxk_lab.estimators.baselines.weighted_means:optimal_weights",
        twin="maxk_lab.estimators.reference.baselines:optimal",
        citation="this project; uniform is centred; K = 1: rloo, opo_loo, otb_loo, eob_loo",
    ),
    BaselineRow(
        name="otb_token",
        meaning=(
            "one baseline per token position, own sample included, weighted by the logit "
            "proxy so far"
        ),
        formula=(
            "w_it = [R_i - sum_j W_jt R_j / sum_j W_jt] / n over the j alive at t, W_jt = "
            "sum of proxies up to t"
        ),
        objective="J_1",
        unbiased=False,
        condition="biased by O(1/n) in direction too: the own sample is in the mean",
        constraint="K = 1 and n >= 2, one weight per token",
        shift_invariant=True,
        least_n=2,
        most_k=1,
        token_level=True,
        implementation="maxk_lab.estimators.baselines.tokens:token_advantages",
        citation="verl's optimal token baseline",
    ),
)
