"""Max@K from samples of another policy, exact for any importance ratios.

Each subset S of K samples counts with the product of its importance ratios r_j = pi(tau_j) /
pi_old(tau_j). The sums over all subsets are elementary symmetric polynomials: see `ratio_sums`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators import checks, ratio_sums
from maxk_lab.estimators.ranked import Sorted, restore_order, sort_rewards

# The most entries of the tables in memory at once; more groups are processed in blocks.
BLOCK_ENTRIES = 2**20
# Products whose logarithm is below this have lost digits in float64.
_FEWER_DIGITS = -670.0
# How much of this range the probabilities over n samples may use, per sample and in total.
_CHANCES, _MOST_CHANCES = 0.7, 350.0


def off_policy_weights(rewards: Tensor, k: int, ratios: Tensor, baseline_name: str) -> Tensor:
    """Return the weights `[..., n]` of `off_policy_maxk` with a baseline of `ratio_sums`."""
    n = rewards.shape[-1]
    ranked, by_rank = _sorted_with_ratios(rewards, ratios)
    weigh = getattr(ratio_sums, baseline_name)  # the functions have the baselines' names
    values, r = ranked.values.reshape(-1, n), by_rank.reshape(-1, n)
    size = max(1, BLOCK_ENTRIES // ((n + 1) * (k + 1)))
    starts = range(0, len(values), size)
    blocks = [weigh(values[i : i + size], r[i : i + size], k) for i in starts] or [values]
    scale = (k / n) / ratio_sums.normalizer(n, k)
    weights = scale * by_rank * torch.cat(blocks).view(by_rank.shape)
    lost = _vanish(ranked.values, by_rank, k).unsqueeze(-1)
    weights = _in_range(weights.masked_fill(lost, torch.nan), k, checks.result_dtype(rewards))
    return restore_order(weights, ranked)


def off_policy_value(rewards: Tensor, ratios: Tensor, k: int) -> Tensor:
    """Return the mean over all K-subsets of (product of ratios) * (max of rewards), `[...]`.

    It is unbiased for J_K under pi. rewards, ratios `[..., n]` and the errors are those of
    `off_policy_maxk`, 1 <= k <= n.
    """
    n = checks.check_rewards(rewards)
    k = checks.check_k(k, n)
    ranked, by_rank = _sorted_with_ratios(rewards, checks.check_ratios(ratios, rewards))
    products = ratio_sums.products(by_rank, k - 1, k / n)
    best = (k / n) * by_rank * ranked.values * ratio_sums.below(products, k - 1, k / n)
    value = best.sum(-1) / ratio_sums.normalizer(n, k)
    value = value.masked_fill(_vanish(ranked.values, by_rank, k), torch.nan)
    return _in_range(value, k, checks.result_dtype(rewards))


def effective_sample_size(ratios: Tensor) -> Tensor:
    """Return (sum r)^2 / sum r^2 of positive finite ratios `[..., n]`: `[...]`, from 1 to n."""
    share = checks.check_ratios(ratios, ratios)
    # Relative to the largest, squares neither overflow nor vanish.
    share = share / share.amax(-1, keepdim=True)
    size = share.sum(-1).square() / share.square().sum(-1)
    return checks.round_to(size, checks.result_dtype(ratios))


def _sorted_with_ratios(rewards: Tensor, ratios: Tensor) -> tuple[Sorted, Tensor]:
    ranked = sort_rewards(rewards.detach())
    return ranked, ratios.gather(-1, ranked.order)


def _vanish(x: Tensor, r: Tensor, k: int) -> Tensor:
    """Return whether sums of products of K ratios lose digits near 0, `[...]`.

    x, r are `[..., n]`. Digits are lost if the largest product with a nonzero reward, without its
    ratios above one, is close to the smallest float64.
    """
    logs = r.log().clamp(max=0.0)
    top = logs.topk(k, dim=-1).values
    of_each = top[..., :-1].sum(-1, keepdim=True) + torch.minimum(logs, top[..., -1:])
    counts = x != 0
    largest = of_each.masked_fill(~counts, -torch.inf).amax(-1)
    least = _FEWER_DIGITS + min(_CHANCES * x.shape[-1], _MOST_CHANCES)
    return (largest < least) & counts.any(-1)


def _in_range(values: Tensor, k: int, dtype: torch.dtype) -> Tensor:
    """Return the values as `dtype`. Raises `LabError` on the CPU if a product overflowed."""
    rounded = values.to(dtype)
    if rounded.device.type == "cpu" and not bool(torch.isfinite(rounded).all()):
        name = "float64" if not bool(torch.isfinite(values).all()) else str(dtype).split(".")[1]
        raise LabError(
            f"the products of K = {k} ratios leave the range of {name}: the two policies are "
            "too far apart"
        )
    return rounded
