"""The estimators: of the maximum, the mean and other statistics of K samples, and heuristics.

Those of an objective give it, and the weights are those of any baseline. `off_policy_maxk` has
baselines of its own. All others have a baseline built in; most scale by a statistic of the group or
favour its best sample, and are biased by it.
Functions use tensors by their methods: this module imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from maxk_lab.catalogue import MOST
from maxk_lab.estimators.objectives import FORMS, Objective
from maxk_lab.estimators.rows import (
    PKPO,
    EstimatorRow,
    below_n,
    estimator,
    spell,
    two_samples,
    two_samples_up_to_n,
    two_up_to_n,
)
from maxk_lab.fields import NotNegative
from maxk_lab.lazy import LazyModule
from maxk_lab.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from maxk_lab.estimators import lines
else:  # they import numpy, which `list` and `plan` do without
    lines = LazyModule("maxk_lab.estimators.lines")

# What verl adds to the deviation.
_VERL_EPS = 1e-6


@estimator("s_i = sum of max R over the K-subsets that contain i, divided by C(n,K)", source=PKPO)
def maxk(k: int) -> Objective:
    """Gradient of the expected maximum of K rewards, from all subsets of n samples."""
    return Objective("max", k)


@estimator(
    "s_i = R_i / n",
    where=lambda n, k: n >= 1,
    constraint="1 <= n, K counts as 1",
    source="Williams 1992; with `centred`: Kool, van Hoof and Welling 2019 (RLOO)",
    objective="J_1",
    fixed_k=1,
)
def reinforce(k: int) -> Objective:
    """Gradient of the ordinary expected reward: maxk at K = 1."""
    return Objective("max", 1)


@estimator(
    "w_i = (R_i - mean(R)) / (std(R) + eps) / n, std with ddof = 1",
    where=two_samples,
    constraint="n >= 2, K counts as 1",
    source="Shao et al. 2024 (GRPO), arXiv 2402.03300; eps as in TRL",
    objective="J_1",
    biased="biased: every group has its own scale, and the own sample is in mean and deviation",
    shift_invariant=True,
    parameter=Setting("eps", NotNegative, 1e-4, "added to the deviation; verl: 1e-6"),
    fixed_k=1,
    examples=("grpo[1e-06]", "grpo[0.0]"),
)
def grpo(rewards: Tensor, k: int, eps: float) -> Tensor:
    """Rewards standardised within the group: the division by their deviation bends the direction.

    0 where all rewards are equal.
    """
    x = relative_to_best(rewards)
    return _ratio(x - x.mean(-1, keepdim=True), _deviation(x) + eps) / x.shape[-1]


@estimator(
    "w_i = [R_i - mean(R) + alpha (max R - mean(R)) if i is best] / n; tied best share alpha",
    where=two_samples_up_to_n,
    source="Wang et al. 2024 (Leader Reward), arXiv 2405.13947",
    biased="biased for every J_K: the best sample is chosen by its own reward; at alpha = 0 it is "
    "(n-1)/n times the gradient of J_1",
    shift_invariant=True,
    parameter=Setting("alpha", NotNegative, 1.0, "extra weight of the best; 0 is the mean"),
    examples=("leader_reward[0.0]", "leader_reward[8.0]"),
)
def leader_reward(rewards: Tensor, k: int, alpha: float) -> Tensor:
    """Mean-centred rewards with an extra share for the best sample; K does not enter."""
    x = relative_to_best(rewards)
    mean, best = x.mean(-1, keepdim=True), (x == 0).double()
    share = alpha * best / best.sum(-1, keepdim=True)
    return (x - mean - share * mean) / x.shape[-1]


@estimator(
    "w_i = lambda subloo_i + (1 - lambda) (R_i - mean(R))",
    where=two_up_to_n,
    source="this project",
    biased="biased unless lambda = 1, which is subloo; at lambda = 0 it is (n-1) times the "
    "gradient of J_1",
    shift_invariant=True,
    parameter=Setting("lambda_", Annotated[float, Field(ge=0, le=1)], 0.5, "the share of subloo"),
    exceptions=(1.0,),
    examples=("hybrid[0.0]", "hybrid[1.0]"),
)
def hybrid(rewards: Tensor, k: int, lambda_: float) -> Tensor:
    """Mixture of subloo and mean-centred rewards, which live on different scales (K/n and 1)."""
    from maxk_lab.estimators.ranked import apply_line

    x = relative_to_best(rewards)
    added = apply_line(lines.subloo(x.shape[-1], k), rewards)
    return lambda_ * added + (1.0 - lambda_) * (x - x.mean(-1, keepdim=True))


@estimator(
    "w_i = (mean of max R over the K-subsets with i - rho) / sqrt(rho (1 - rho)) / n; 0 where rho "
    "is 0 or 1",
    where=below_n,
    constraint="1 <= K < n and rewards 0 or 1",
    source="Chen et al. 2025 (Pass@k Training), arXiv 2508.10751",
    biased="biased from n = 3 on: every group has its own scale; at n = 2 it is rloo",
    binary_rewards=True,
)
def passk_analytic(rewards: Tensor, k: int) -> Tensor:
    """Standardised pass@K of all K-subsets: group_mean over K times the deviation of their success.

    K = 1 is GRPO with the deviation of ddof = 0 and no eps; at K = n rho is 0 or 1 in every group.
    """
    from maxk_lab.estimators.ranked import apply_line, level, sort_rewards

    n = rewards.shape[-1]
    failed = level(-1.0 * lines.value(n, k) + 1.0, sort_rewards(rewards))
    numerator = apply_line(lines.group_mean(n, k), rewards)
    return _ratio(numerator, (failed * (1.0 - failed)).sqrt()) / k


@estimator(
    "w_best = (R_(n) - R_(n-1)) / (std(R) + 1e-6), 0 elsewhere; std has ddof = 1; `none`: no "
    "division",
    where=lambda n, k: k == n >= 2,
    constraint="K = n >= 2",
    source="verl's grpo_passk, up to its factor 1/n",
    biased="biased with std; unbiased with none, which is subloo",
    shift_invariant=True,
    parameter=Setting("norm", Literal["std", "none"], "std", "what divides the gap"),
    exceptions=("none",),
    examples=("grpo_passk[none]",),
)
def grpo_passk(rewards: Tensor, k: int, norm: str) -> Tensor:
    """Gap between best and second best, to the best sample: subloo at K = n, divided by the
    deviation.
    """
    from maxk_lab.estimators.ranked import apply_line

    gap = apply_line(lines.subloo(k, k), rewards)
    return gap if norm == "none" else _ratio(gap, _deviation(relative_to_best(rewards)) + _VERL_EPS)


@estimator(
    "w_i = (R_i - mean(R)) / mean(R) / n; 0 where mean(R) = 0",
    where=two_samples,
    constraint="n >= 2, rewards 0 or 1, K counts as 1",
    source="Tajwar et al. 2026 (MaxRL), arXiv 2602.02710",
    objective="Σ_{k<n} pass@k / k",
    condition="the n samples are i.i.d.",
    binary_rewards=True,
    fixed_k=1,
    aim=lambda n, k: Objective("tail_rl", max(1, n - 1)),
)
def maxrl(rewards: Tensor, k: int) -> Tensor:
    """Mean-centred rewards over their mean: tail_rl with centred at K = n - 1, for 0 and 1.

    With success probability p its mean is sum over j < n-1 of (1-p)^j times the gradient of J_1.
    """
    mean = rewards.mean(-1, keepdim=True)
    return _ratio(rewards - mean, mean) / rewards.shape[-1]


@estimator(
    "w_i = [exp(beta R_i) / mean(exp(beta R)) - 1] / (beta n)",
    where=two_samples,
    constraint="n >= 2, K counts as 1",
    source="Jiang et al. 2025 (RS-GRPO), arXiv 2509.24261",
    objective="J_1",
    biased="biased for J_1: it aims at log E[exp(beta R)] / beta; biased by O(1/n) for that, too, "
    "as the own sample is in the mean",
    shift_invariant=True,
    parameter=Setting(
        "beta", Annotated[float, Field(gt=0, le=MOST)], 2.0, "near 0 it is mean, large the best"
    ),
    fixed_k=1,
    examples=("rs_grpo[1e-06]", "rs_grpo[8.0]"),
)
def rs_grpo(rewards: Tensor, k: int, beta: float) -> Tensor:
    """Entropic advantages: rewards weighted by the exponential of beta times the reward."""
    # Differences to 1 keep their digits where beta times the rewards is small.
    x = (beta * relative_to_best(rewards)).expm1()
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (1.0 + mean) / (beta * x.shape[-1])


def _read_parts(written: Any) -> Any:
    from maxk_lab.estimators.mixtures import read_parts

    return read_parts(written)


@estimator(
    "w_i = lambda w_i(A) + (1 - lambda) w_i(B)",
    constraint="n and K at which A and B run",
    source="TRL issue 7291, for pass@K with pass@1",
    objective="λ J_A + (1 − λ) J_B",
    condition="A and B are unbiased",
    parameter=Setting(
        "parts",
        Annotated[Any, BeforeValidator(_read_parts)],
        (0.5, "maxk/subloo", "reinforce/rloo"),
        "lambda, A and B; a part is estimator/baseline",
        spelling="lambda A B",
    ),
    examples=(
        "mix[0.3 maxk/centred maxk/subloo]",
        "mix[0.25 maxk/group_mean maxk/none]",
        "mix[0.5 maxk/group_mean reinforce/rloo]",
        "mix[0.5 maxk/subloo grpo]",
        "mix[0.5 tail_rl/centred order[0.5 0.5]/none]",
        "mix[0.5 maxrl maxk/centred]",
    ),
)
def mix(rewards: Tensor, k: int, parts: Any) -> Tensor:
    """Mixture of two methods: unbiased if both are; a scale that both share is its scale."""
    from maxk_lab.estimators.mixtures import mixed_weights

    return mixed_weights(rewards, k, parts)


def _order_statistic(
    name: str,
    meaning: str,
    alpha: str,
    examples: tuple[str, ...] = (),
    constraint: str = "",
    source: str = "OrderGrad, arXiv 2606.06096",
) -> EstimatorRow:
    """The estimator of one form of objective; `alpha` are its weights in words or symbols."""

    def objective(k: int, **parameter: Any) -> Objective:
        form = name + "".join(f"[{spell(value)}]" for value in parameter.values())
        return Objective(form, k)

    objective.__doc__ = f"Gradient of the expected {meaning}."
    return estimator(
        "s_i = sum of L over the K-subsets that contain i, over C(n,K); L = sum_j "
        f"alpha_j R_(j:K), {alpha}",
        name=name,
        source=source,
        objective="L_K",
        constraint=constraint,
        parameter=FORMS[name][0],
        examples=examples,
    )(objective)


top_m = _order_statistic(
    "top_m",
    "mean of the m best of K rewards",
    "alpha = 1/m on the m best",
    ("top_m[1]", "top_m[3]"),
    "m <= K <= n",
)
cvar_upper = _order_statistic(
    "cvar_upper",
    "mean of the best share q of K rewards (upper conditional value at risk)",
    "alpha spreads 1 evenly over the best q K, in part on the one at the boundary",
    ("cvar_upper[0.7]", "cvar_upper[1.0]"),
)
order = _order_statistic(
    "order",
    "weighted sum of K sorted rewards",
    "alpha as given, worst reward first",
    (
        "order[0.0 1.0]",
        "order[-0.5 2.0]",
        "order[0.5 0.0 -1.5]",
        "order[0.1 0.2 0.3 0.4]",
    ),
    "K = the number of weights <= n",
)
tail_rl = _order_statistic(
    "tail_rl",
    "sum over k = 1..K of max@k / k, which weighs rare high rewards",
    "alpha_j = 1 / (K+1-j); with `centred` at K = n-1: w_(i) = sum_{j<i} (R_(j+1) - R_(j)) / (n-j) "
    "- (R_(n) - R_(1)) / n",
    source="Ramasubramanian et al. 2026 (TailRL), arXiv 2609.02987; K is their T, their advantage "
    "is n w of `centred` at K = n-1",
)


@estimator(
    "s_i = sum of (prod_j in S r_j) max_S R over the K-subsets S that contain i, divided by C(n,K)",
    source=f"{PKPO}, with importance ratios; elementary symmetric polynomials: this project",
    condition="the n samples are i.i.d. under a policy that can do all the target policy can; r "
    "are exact ratios",
    constraint="1 <= K <= n, and the samples' importance ratios",
)
def off_policy_maxk(rewards: Tensor, k: int, ratios: Tensor, baseline_name: str) -> Tensor:
    """Maxk from trajectories of another policy, exact: every subset counts with the product of its
    ratios.

        none     s_i = 1/C(n,K) * sum over the K-subsets with i of (product of ratios) (max reward)
        centred  s_i - r_i (K/n) * (off-policy Max@K value of the others), K < n
        subloo   s_i - r_i (K/n) * (off-policy Max@(K-1) value of the others), K >= 2

    Both baselines have mean zero because r_i grad log pi(tau_i) has. `subloo` alone is never
    negative, zero below rank K and blind to a constant added to the rewards; such a constant moves
    `centred` by zero on average. All are exact to a few roundings of the group's largest weight,
    however far apart the ratios are. Takes O(nK) time and memory.

    Raises `LabError` for products of ratios beyond the range of float64 or so near 0 that they lose
    digits, or beyond the rewards' dtype (off the CPU these give infinite or NaN weights instead).
    """
    from maxk_lab.estimators.off_policy import off_policy_weights

    return off_policy_weights(rewards, k, ratios, baseline_name)


def relative_to_best(rewards: Tensor) -> Tensor:
    """Rewards `[..., n]` minus their group's maximum, float64, no gradient: 0 for the best."""
    values = rewards.detach().double()
    return values - values.amax(dim=-1, keepdim=True)


def _deviation(x: Tensor) -> Tensor:
    """The standard deviation with ddof = 1, `[..., 1]`, with squares that never overflow."""
    reach = x.abs().amax(dim=-1, keepdim=True)
    relative = x / reach.masked_fill(reach == 0, 1.0)
    squares = (relative - relative.mean(-1, keepdim=True)).square().sum(-1, keepdim=True)
    return reach * (squares / (x.shape[-1] - 1)).sqrt()


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, and 0 where the denominator is 0 (the numerator is, too)."""
    zero = denominator == 0
    return (numerator / denominator.masked_fill(zero, 1.0)).masked_fill(zero, 0.0)
