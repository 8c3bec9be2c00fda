"""The token-level baseline: one weight per token, for rewards at the end of a trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxk_lab.errors import LabError
from maxk_lab.estimators.baselines.weighted_means import below_top
from maxk_lab.estimators.engine import checks, gaps, torch
from maxk_lab.estimators.rows import baseline

if TYPE_CHECKING:
    from torch import Tensor


@baseline(
    "w_it = [R_i - sum_j W_jt R_j / sum_j W_jt] / n over the j alive at t, W_jt = sum of proxies "
    "up to t",
    where="K == 1 and n >= 2",
    constraint="K = 1 and n >= 2, one weight per token",
    source="verl's optimal token baseline",
    objective="J_1",
    biased="biased by O(1/n) in direction too: the own sample is in the mean",
    shift_invariant=True,
    token_level=True,
)
def otb_token(rewards: Tensor, logit_proxies: Tensor, mask: Tensor) -> Tensor:
    """One baseline per token position, own sample included, weighted by the logit proxy so far."""
    n = rewards.shape[-1]
    x = below_top(rewards).unsqueeze(-1)
    alive = mask.double()
    # Relative to the largest at t: a tiny common factor must not underflow in the products.
    so_far = logit_proxies.cumsum(-1) * alive
    largest = so_far.amax(dim=-2, keepdim=True)
    share = torch.where(largest > 0, so_far / largest, alive)
    total = share.sum(-2, keepdim=True)
    level = (share * x).sum(-2, keepdim=True) / torch.where(total > 0, total, 1.0)
    return alive * (x - level) / n


def token_advantages(rewards: Tensor, logit_proxies: Tensor, mask: Tensor) -> Tensor:
    """The weights w_it of the estimate sum_i sum_t w_it grad log pi_it under `otb_token`.

    w_it = (R_i - B_t) / n with B_t = sum_j W_jt R_j / sum_j W_jt over the samples j that have a
    token at t, and W_jt = the sum of sample j's logit proxies 1 - 2 pi + sum_a pi(a)^2 up to t: the
    optimal token baseline, for K = 1 and a reward at the end, which is every token's return. Biased
    by O(1/n): sample i is part of B_t. A sample that is alone at t gets 0 there. Where every W_jt
    is 0, as for a policy that has no choice, so is every score, and B_t is the plain mean.

    rewards: `[..., n]` with n >= 2, i.i.d. along n. logit_proxies: `[..., n, T]`, not negative;
    mask: `[..., n, T]` boolean, True for the tokens of the trajectory. Returns `[..., n, T]` in the
    rewards' floating dtype (float64 for integers and booleans), 0 where mask is False: what stands
    there in logit_proxies counts for nothing. Raises `ValueError` for other shapes and, on the CPU,
    for a reward that is not finite and a logit proxy that is negative beyond rounding or not
    finite.
    """
    checks.check_rewards(rewards, least_n=2)
    for name, table in (("logit_proxies", logit_proxies), ("mask", mask)):
        if table.dim() != rewards.dim() + 1 or table.shape[:-1] != rewards.shape:
            raise LabError(
                f"{name} must have the shape of rewards {list(rewards.shape)} and one more "
                f"dimension, got {list(table.shape)}"
            )
    if mask.dtype != torch.bool or mask.shape != logit_proxies.shape:
        raise LabError(
            f"mask must be boolean of shape {list(logit_proxies.shape)}, got {mask.dtype} of "
            f"{list(mask.shape)}"
        )
    proxies = torch.where(mask, logit_proxies.detach().double(), 0.0)
    checks.check_values(
        proxies, proxies >= -1e-6, "logit_proxies must be finite and not negative", fill=None
    )
    weights: Tensor = otb_token(rewards, proxies.clamp(min=0), mask)
    return weights.to(gaps.result_dtype(rewards))
