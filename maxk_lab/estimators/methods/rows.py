"""The project's own estimators: one catalogue row each. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from maxk_lab.estimators.methods.kinds import EstimatorRow, PartitionedRow, WholeGroupRow
from maxk_lab.estimators.methods.rows_of_l_statistics import L_STATISTIC_ROWS
from maxk_lab.fields import NotNegative
from maxk_lab.settings import Setting

PKPO = "Walder and Karkhanis 2025 (PKPO), arXiv 2505.15201"
Share = Annotated[float, Field(ge=0.0, le=1.0)]


ESTIMATOR_ROWS: tuple[EstimatorRow, ...] = (
    EstimatorRow(
        name="maxk",
        meaning="gradient of the expected maximum of K rewards, from all subsets of n samples",
        formula="s_i = sum of max R over the K-subsets that contain i, divided by C(n,K)",
        unbiased=True,
        implementation="maxk_lab.estimators.methods.maxk:maxk",
        twin="maxk_lab.estimators.reference.estimators:of_baseline",
        citation=PKPO,
    ),
    EstimatorRow(
        name="reinforce",
        meaning="gradient of the ordinary expected reward: maxk at K = 1",
        formula="s_i = R_i / n",
        unbiased=True,
        objective="J_1",
        constraint="1 <= n, K counts as 1",
        fixed_k=1,
        implementation="maxk_lab.estimators.methods.maxk:reinforce",
        twin="maxk_lab.estimators.reference.estimators:reinforce",
        citation="Williams 1992; with `centred`: Kool, van Hoof and Welling 2019 (RLOO)",
    ),
    EstimatorRow(
        name="grpo",
        meaning=(
            "rewards standardised within the group: the division by their deviation bends "
            "the direction"
        ),
        formula="w_i = (R_i - mean(R)) / (std(R) + eps) / n, std with ddof = 1",
        objective="J_1",
        unbiased=False,
        condition=(
            "biased: every group has its own scale, and the own sample is in mean and deviation"
        ),
        constraint="n >= 2, K counts as 1",
        shift_invariant=True,
        parameter=Setting("eps", NotNegative, 1e-4, "added to the deviation; verl: 1e-6"),
        least_n=2,
        fixed_k=1,
        takes_baseline=False,
        examples=("grpo[1e-06]", "grpo[0.0]"),
        implementation="maxk_lab.estimators.methods.standardised:grpo",
        twin="maxk_lab.estimators.reference.estimators:grpo",
        citation="Shao et al. 2024 (GRPO), arXiv 2402.03300; eps as in TRL",
    ),
    EstimatorRow(
        name="leader_reward",
        meaning="mean-centred rewards with an extra share for the best sample; K does not enter",
        formula=(
            "w_i = [R_i - mean(R) + alpha (max R - mean(R)) if i is best] / n; tied best "
            "share alpha"
        ),
        unbiased=False,
        condition="biased for every J_K: the best sample is chosen by its own reward",
        shift_invariant=True,
        parameter=Setting("alpha", NotNegative, 1.0, "extra weight of the best; 0 is the mean"),
        least_n=2,
        takes_baseline=False,
        examples=("leader_reward[0.0]", "leader_reward[8.0]"),
        implementation="maxk_lab.estimators.methods.heuristics:leader_reward",
        twin="maxk_lab.estimators.reference.estimators:leader_reward",
        citation="Wang et al. 2024 (Leader Reward), arXiv 2405.13947",
    ),
    EstimatorRow(
        name="hybrid",
        meaning=(
            "mixture of subloo and mean-centred rewards, which live on different scales (K/n and 1)"
        ),
        formula="w_i = lambda subloo_i + (1 - lambda) (R_i - mean(R))",
        unbiased=False,
        condition=(
            "biased unless lambda = 1, which is subloo; at lambda = 0 it is (n-1) times the "
            "gradient of J_1"
        ),
        shift_invariant=True,
        parameter=Setting("lambda_", Share, 0.5, "the share of subloo"),
        least_k=2,
        takes_baseline=False,
        unbiased_settings=(1.0,),
        examples=("hybrid[0.0]", "hybrid[1.0]"),
        implementation="maxk_lab.estimators.methods.heuristics:hybrid",
        twin="maxk_lab.estimators.reference.estimators:hybrid",
        citation="this project",
    ),
    EstimatorRow(
        name="passk_analytic",
        meaning=(
            "standardised pass@K of all K-subsets: group_mean over K times the deviation of "
            "their success"
        ),
        formula=(
            "w_i = (mean of max R over the K-subsets with i - rho) / sqrt(rho (1 - rho)) / "
            "n; 0 where rho is 0 or 1"
        ),
        unbiased=False,
        condition="biased from n = 3 on: every group has its own scale; at n = 2 it is rloo",
        constraint="1 <= K < n and rewards 0 or 1",
        k_below_n=True,
        binary_rewards=True,
        takes_baseline=False,
        implementation="maxk_lab.estimators.methods.standardised:passk_analytic",
        twin="maxk_lab.estimators.reference.estimators:passk_analytic",
        citation="Chen et al. 2025 (Pass@k Training), arXiv 2508.10751",
    ),
    WholeGroupRow(
        name="grpo_passk",
        meaning=(
            "gap between best and second best, to the best sample: subloo at K = n, divided "
            "by the deviation"
        ),
        formula=(
            "w_best = (R_(n) - R_(n-1)) / (std(R) + 1e-6), 0 elsewhere; std has ddof = 1; "
            "`none`: no division"
        ),
        unbiased=False,
        condition="biased with std; unbiased with none, which is subloo",
        constraint="K = n >= 2",
        shift_invariant=True,
        parameter=Setting("norm", Literal["std", "none"], "std", "what divides the gap"),
        least_n=2,
        least_k=2,
        takes_baseline=False,
        unbiased_settings=("none",),
        examples=("grpo_passk[none]",),
        implementation="maxk_lab.estimators.methods.standardised:grpo_passk",
        twin="maxk_lab.estimators.reference.estimators:grpo_passk",
        citation="verl's grpo_passk, up to its factor 1/n",
    ),
    EstimatorRow(
        name="maxrl",
        meaning="mean-centred rewards over their mean: hard instances weigh more",
        formula="w_i = (R_i - mean(R)) / mean(R) / n; 0 where mean(R) = 0",
        objective="J_1",
        unbiased=False,
        condition=(
            "biased for J_1: with success probability p, sum over j < n-1 of (1-p)^j times "
            "its gradient"
        ),
        constraint="n >= 2, rewards 0 or 1, K counts as 1",
        least_n=2,
        binary_rewards=True,
        fixed_k=1,
        takes_baseline=False,
        implementation="maxk_lab.estimators.methods.standardised:maxrl",
        twin="maxk_lab.estimators.reference.estimators:maxrl",
        citation="Tajwar et al. 2026 (MaxRL), arXiv 2602.02710",
    ),
    *L_STATISTIC_ROWS,
    PartitionedRow(
        name="partitioned",
        meaning=(
            "one maximum per disjoint group of K samples: what Max@K costs without subsets "
            "that share samples"
        ),
        formula=(
            "w_i = (K/n) [max R of i's group - mean of the other groups' maxima (loo) or 0 (none)]"
        ),
        unbiased=True,
        condition="the n samples are i.i.d. and grouped in drawing order",
        constraint="K divides n; for loo also n >= 2 K",
        takes_baseline=False,
        parameter=Setting(
            "baseline",
            Literal["none", "loo"],
            "none",
            "loo: minus the mean of the other groups' maxima",
        ),
        examples=("partitioned[loo]",),
        ordered=True,
        implementation="maxk_lab.estimators.methods.partitioned:partitioned",
        twin="maxk_lab.estimators.reference.estimators:partitioned",
        citation=f"{PKPO}, the baseline of its Figure 4",
    ),
    EstimatorRow(
        name="off_policy_maxk",
        meaning=(
            "maxk from trajectories of another policy, exact: every subset counts with the "
            "product of its ratios"
        ),
        formula=(
            "s_i = sum of (prod_j in S r_j) max_S R over the K-subsets S that contain i, "
            "divided by C(n,K)"
        ),
        unbiased=True,
        condition=(
            "the n samples are i.i.d. under a policy that can do all the target policy can; "
            "r are exact ratios"
        ),
        constraint="1 <= K <= n, and the samples' importance ratios",
        needs_ratios=True,
        implementation="maxk_lab.estimators.methods.off_policy:off_policy_weights",
        twin="maxk_lab.estimators.reference.off_policy:exact",
        citation=f"{PKPO}, with importance ratios; elementary symmetric polynomials: this project",
    ),
    EstimatorRow(
        name="off_policy_first_order",
        meaning=(
            "off_policy_maxk to first order in r - 1: cheaper, right only near the policy "
            "that drew the samples"
        ),
        formula="prod_j in S r_j -> 1 + sum_j in S (r_j - 1) in off_policy_maxk",
        unbiased=False,
        condition="biased unless all ratios are 1: the products of r - 1 are left out",
        constraint="1 <= K <= n, and the samples' importance ratios",
        needs_ratios=True,
        implementation="maxk_lab.estimators.methods.first_order:first_order_weights",
        twin="maxk_lab.estimators.reference.off_policy:to_first_order",
        citation="the first-order form in r - 1 of off-policy Max@K training",
    ),
)
