"""Max@K from samples of another policy, exactly.

Each subset S of K samples counts with the product of its importance ratios r_j = pi(tau_j) /
pi_old(tau_j). The sums over all subsets are elementary symmetric polynomials: see `ratio_sums`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.methods import ratio_sums
from maxk_lab.estimators.methods.off_policy_centred import centred
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import derived
from maxk_lab.estimators.ranks.gaps import Rule, Sorted, in_own_order, result_dtype, sort_rewards
from maxk_lab.estimators.validation import check_k, check_rewards

# Entries of the tables that are in memory at once: groups beyond that wait for the next block.
BLOCK_ENTRIES = 2**20
# Products whose logarithm is less than this have fewer digits than others in float64.
_FEWER_DIGITS = -670.0
# What the chances of a sum over n samples may take from that, for each and at most.
_CHANCES, _MOST_CHANCES = 0.7, 350.0


def off_policy_weights(
    rewards: Tensor, ratios: Tensor, k: int, baseline: str = "none", *, stable_sort: bool = True
) -> Tensor:
    """The weights w_i of sum_i w_i grad log pi(tau_i), exactly unbiased for J_K under pi.

        none     s_i = 1/C(n,K) * sum over the K-subsets with i of (product of ratios) (max reward)
        centred  s_i - r_i (K/n) * (off-policy Max@K value of the others), K < n
        subloo   s_i - r_i (K/n) * (off-policy Max@(K-1) value of the others), K >= 2

    Both baselines have mean zero because r_i grad log pi(tau_i) has. `subloo` is the sum over the
    (K-1)-subsets of worse samples of r_i (product of their ratios) (R_i - their max): never
    negative, zero below rank K and blind to a constant added to the rewards. `none` and `centred`
    are not: a constant c adds c r_i (K/n) m_{K-1} and c r_i (K/n) (m_{K-1} - m_K), m_k being the
    mean product of k of the others' ratios. For `centred` that is zero where all ratios are one,
    and zero on average. All are exact to a few roundings of the group's largest weight, however far
    apart the ratios are.

    rewards: `[..., n]`, i.i.d. along n under pi_old, higher is better; ratios: of the same shape,
    of whole trajectories. Returns `[..., n]` in the samples' order and the rewards' floating dtype
    (float64 for integers and booleans), without gradient. Ratios of one give the on-policy weights;
    K = 1 without baseline gives r_i R_i / n. Takes O(nK) time and memory.

    Raises `ValueError` for K out of range, a reward that is not finite, a ratio that is not
    positive and finite, another baseline, and products of ratios beyond the range of float64 or
    so near 0 that they lose digits, or beyond the rewards' dtype (off the CPU these give infinite
    or NaN weights instead).
    """
    n = check_rewards(rewards)
    k = checked_k(k, n, baseline)
    ranked, by_rank = sorted_with_ratios(rewards, ratios, stable_sort=stable_sort)
    weigh = OFF_POLICY_BASELINES[baseline].weigh
    values, r = ranked.values.reshape(-1, n), by_rank.reshape(-1, n)
    size = max(1, BLOCK_ENTRIES // ((n + 1) * (k + 1)))
    starts = range(0, len(values), size)
    blocks = [weigh(values[i : i + size], r[i : i + size], k) for i in starts] or [values]
    weights = torch.cat(blocks).view(by_rank.shape)
    scale = (k / n) / ratio_sums.normalizer(n, k, by_rank.device)
    dtype = result_dtype(rewards)
    weights = (scale * by_rank * weights).masked_fill(
        _vanish(ranked.values, by_rank, k).unsqueeze(-1), torch.nan
    )
    return in_own_order(_in_range(weights, k, dtype), ranked, dtype)


def off_policy_value(
    rewards: Tensor, ratios: Tensor, k: int, *, stable_sort: bool = True
) -> Tensor:
    """The mean over all K-subsets of (product of their ratios) * (max of their rewards).

    Unbiased for J_K under pi.

    rewards, ratios `[..., n]` and what is raised as in `off_policy_weights`, 1 <= k <= n. Returns
    `[...]`, in units of reward.
    """
    n = check_rewards(rewards)
    k = check_k(k, n)
    ranked, by_rank = sorted_with_ratios(rewards, ratios, stable_sort=stable_sort)
    products = ratio_sums.products(by_rank, k - 1, k / n)
    best = (k / n) * by_rank * ranked.values * ratio_sums.below(products, k - 1, k / n)
    value = best.sum(-1) / ratio_sums.normalizer(n, k, best.device)
    value = value.masked_fill(_vanish(ranked.values, by_rank, k), torch.nan)
    return _in_range(value, k, result_dtype(rewards))


def _vanish(x: Tensor, r: Tensor, k: int) -> Tensor:
    """Whether sums of products of K ratios lose digits next to 0, `[...]`, of x, r `[..., n]`.

    They do where some samples of the largest product with a reward that is not 0 have, without
    those of ratios above one, a product next to the least of float64.
    """
    logs = r.log().clamp(max=0.0)
    top = logs.topk(k, dim=-1).values
    of_each = top[..., :-1].sum(-1, keepdim=True) + torch.minimum(logs, top[..., -1:])
    counts = x != 0
    largest = of_each.masked_fill(~counts, -torch.inf).amax(-1)
    least = _FEWER_DIGITS + min(_CHANCES * x.shape[-1], _MOST_CHANCES)
    return (largest < least) & counts.any(-1)


def _in_range(values: Tensor, k: int, dtype: torch.dtype) -> Tensor:
    """The values as `dtype`.

    Raises on the CPU where a product of K ratios has left float64, or the result `dtype`: they are
    then infinite or NaN.
    """
    found = values.to(dtype)
    if found.device.type == "cpu" and not bool(torch.isfinite(found).all()):
        left = "float64" if not bool(torch.isfinite(values).all()) else str(dtype).split(".")[1]
        raise LabError(
            f"the products of K = {k} ratios leave the range of {left}: the two policies are "
            "too far apart"
        )
    return found


def effective_sample_size(ratios: Tensor) -> Tensor:
    """(sum r)^2 / sum r^2 of positive finite ratios `[..., n]`: `[...]`.

    It is n for equal ratios, and near 1 if one outweighs the rest.
    """
    share = _checked(ratios, ratios)
    # Relative to the largest: squares neither overflow nor vanish.
    share = share / share.amax(-1, keepdim=True)
    return (share.sum(-1).square() / share.square().sum(-1)).to(result_dtype(ratios))


def _with_each(x: Tensor, r: Tensor, k: int) -> Tensor:
    """The sum over K-1 others of (product of ratios) (max of x with the own one).

    x and r are `[groups, n]`, by rank.
    """
    p = k / x.shape[-1]
    products = ratio_sums.products(r, k - 1, p)
    return x * ratio_sums.below(products, k - 1, p) + ratio_sums.meet(
        products, ratio_sums.maxima(x, r, k - 1, p), k - 1
    )


def _subloo(x: Tensor, r: Tensor, k: int) -> Tensor:
    """The sum over K-1 worse others of (product of ratios) (own x - max of theirs).

    It is a cumulative sum over the gaps.
    """
    n, p = x.shape[-1], k / x.shape[-1]
    products = ratio_sums.products(r, k - 1, p)[1:-1, ..., k - 1].movedim(0, -1)
    steps = x.diff(dim=-1) * products * ratio_sums.left(n - 1, p, x.device)
    return ratio_sums.of_lower_ranks(steps)


@dataclass(frozen=True)
class OffPolicyBaseline:
    """A baseline r_i (K/n) times the off-policy value of the other samples at K - `fewer`.

    There is none where that is None.

    `weigh` gives the weights over r_i (K/n) from x, r `[groups, n]` by rank and K, up to
    `ratio_sums.normalizer`; `on_policy` is the rule at ratios of one.
    """

    weigh: Callable[[Tensor, Tensor, int], Tensor]
    on_policy: Callable[[int, int, Objective | None, torch.device], Rule]
    fewer: int | None = None


# The baselines whose rows are `off_policy`.
OFF_POLICY_BASELINES = {
    "none": OffPolicyBaseline(_with_each, derived.score),
    "centred": OffPolicyBaseline(centred, derived.centred, 0),
    "subloo": OffPolicyBaseline(_subloo, derived.subloo, 1),
}


def sorted_with_ratios(
    rewards: Tensor, ratios: Tensor, *, stable_sort: bool
) -> tuple[Sorted, Tensor]:
    """The sorted rewards and the ratios in their order, float64."""
    checked = _checked(ratios, rewards)
    ranked = sort_rewards(rewards.detach(), stable_sort=stable_sort)
    return ranked, checked.gather(-1, ranked.order)


def checked_k(k: int, n: int, baseline: str) -> int:
    """K as an int.

    Raises `ValueError` for an unknown baseline and for a K that it cannot have with n samples.
    """
    if baseline not in OFF_POLICY_BASELINES:
        raise LabError(
            f"baseline must be one of {', '.join(OFF_POLICY_BASELINES)}, got {baseline!r}"
        )
    fewer = OFF_POLICY_BASELINES[baseline].fewer
    return check_k(k, n, low=1 + (fewer or 0), below_n=fewer == 0)


def _checked(ratios: Tensor, rewards: Tensor) -> Tensor:
    """The ratios in float64, without gradient.

    Raises unless they are positive, finite and of the rewards' shape.

    Off the CPU a ratio that is not positive and finite becomes NaN instead.
    """
    check_rewards(ratios, "ratios")
    if ratios.shape != rewards.shape:
        raise LabError(
            f"ratios must have the shape of rewards {list(rewards.shape)}, got {list(ratios.shape)}"
        )
    own = ratios.detach().double()
    fine = (own > 0) & (own < torch.inf)
    if own.device.type != "cpu":
        return torch.where(fine, own, torch.nan)
    if not bool(fine.all()):
        raise LabError(f"ratios must be positive and finite, got {own[~fine][0].item()}")
    return own
