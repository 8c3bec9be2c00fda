"""Baselines that are means of rewards: each sample counts with a number g >= 0.

g may be its squared score norm, say; only ratios of g matter, and where all that is averaged has
g = 0, as for a policy so sure of itself that its squared scores round to 0, the mean is the plain
one (see `checks.check_trajectory_weights`).

Every sum here has terms of one sign, as rewards count from the group's maximum: nothing cancels.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.estimators.baselines.leave_one_out import RLOO, centred
from maxk_lab.estimators.engine import cached, gaps, rules, torch
from maxk_lab.estimators.rows import TRAJECTORY_WEIGHTS, BaselineRow, baseline
from maxk_lab.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from maxk_lab.estimators.ranks.gaps import Rule

# Rewards that `optimal` takes at a time.
_BLOCK = 16_384
_FOR_ONE: dict[str, Any] = {
    "where": "K == 1 and n >= 2",
    "objective": "J_1",
    "shift_invariant": True,
}
_OWN_INSIDE = "biased by O(1/n) in direction too: the own sample is in the mean"


@baseline(
    "w_i = (R_i - mean(R)) / n",
    source="Liu et al. 2025 (Dr. GRPO), arXiv 2503.20783",
    biased="biased in scale only: (n-1)/n times the gradient",
    scale=lambda n, k: (n - 1) / n,
    level=lambda at: at.share * at.group.mean(),
    **_FOR_ONE,
)
def mean(n: int, k: int) -> Rule:
    """Mean reward of the group, own sample included (Dr. GRPO): group_mean at K = 1."""
    return rules.group_mean(n, k)


@baseline(
    "w_i = (R_i - mean of the other R) / n = (R_i - mean(R)) / (n-1)",
    source=RLOO,
    level=lambda at: at.share * at.others.mean(),
    **_FOR_ONE,
)
def rloo(n: int, k: int) -> Rule:
    """Mean reward of the other samples: centred at K = 1."""
    rule: Rule = centred(n, k, None)
    return rule


def _pair(name: str, kind: str, words: str, source: str) -> tuple[BaselineRow, BaselineRow]:
    """The weighted means of the rewards: with the own sample, biased, and without it."""

    def with_own(rewards: Tensor, k: int, g: Tensor) -> Tensor:
        x = relative_to_best(rewards)
        return (x - (g * x).sum(-1, keepdim=True) / g.sum(-1, keepdim=True)) / x.shape[-1]

    def of_others(rewards: Tensor, k: int, g: Tensor) -> Tensor:
        x = relative_to_best(rewards)
        return (x - _sum_of_others(g * x) / _sum_of_others(g)) / x.shape[-1]

    with_own.__doc__ = f"Mean reward of the group, own sample included, weighted by {words}."
    of_others.__doc__ = f"Mean reward of the other samples, weighted by {words}."
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
        )(of_others),
    )


opo, opo_loo = _pair("opo", "length", "length", "Hao et al. 2025 (OPO), arXiv 2505.23585")
otb, otb_loo = _pair(
    "otb",
    "logit_proxy",
    "the logit proxy of the squared score norm",
    "verl's optimal token baseline, at trajectory level",
)
eob, eob_loo = _pair(
    "eob",
    "grad_norm",
    "the exact squared score norm",
    "Greensmith, Bartlett and Baxter 2004, JMLR 5; estimated in the group",
)


@baseline(
    "w_i = s_i - (n-1)/n sum_j!=i g_j s_j(-i) / sum_j!=i g_j",
    where="1 <= K < n",
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
    O(n log n). Sample j's share of the sum for i, all terms <= 0: below i, its own reward's term,
    the rewards' between j and i and those above i; above i, its own reward's and those above j.
    """
    n = rewards.shape[-1]
    if g is None:
        return gaps.apply_rule(centred(n, k, None), rewards)
    # In blocks whose temporaries stay in the cache: twice as fast for n = 65 536.
    size = max(1, _BLOCK // n)
    groups, numbers = rewards.reshape(-1, n), g.reshape(-1, n)
    starts = range(0, max(1, len(groups)), size)
    blocks = [_optimal(groups[i : i + size], numbers[i : i + size], k) for i in starts]
    return torch.cat(blocks).view(rewards.shape)


def _optimal(rewards: Tensor, g: Tensor, k: int) -> Tensor:
    """The weights of `optimal` for rewards and g `[groups, n]`."""
    n = rewards.shape[-1]
    ranked = gaps.sort_rewards(rewards.detach())
    g, x = g.gather(-1, ranked.order), ranked.values - ranked.top
    own_share, lower, own_down, lower_down = _shares(n, k).to(x.device)
    below = _before(g)
    above_terms = _after(x * lower_down)
    from_below = (below * lower + own_share * g) * x
    from_above = (x * own_down + above_terms) * g
    total = _before(from_below) + below * above_terms + _after(from_above)
    means = (n - 1) / n * total / (below + _after(g))
    # The score weights of rewards minus their maximum, as the mean is of those.
    score = gaps.weights_by_rank(replace(rules.score(n, k), top=0.0), ranked)
    return gaps.restore_order(score - means, ranked)


@cached
def _shares(n: int, k: int) -> Tensor:
    """The share of a reward of rank l = 1..n in score weights among n-1 samples, float64 `[4, n]`.

    In its own sample's, C(l-1, K-1) / C(n-1, K), and in each lower sample's, (K-1)/(l-1) of that,
    where the removed sample ranks above it; then both for a removed sample below it, at l - 1.
    """
    own_share = rules.rank_weights(n - 1, k)
    rank = torch.arange(1, n, dtype=torch.float64)
    lower = own_share * (k - 1) / (rank - 1).clamp(min=1)
    zero = own_share.new_zeros(1)
    return torch.stack(
        [
            torch.cat([own_share, zero]),
            torch.cat([lower, zero]),
            torch.cat([zero, own_share]),
            torch.cat([zero, lower]),
        ]
    )


def relative_to_best(rewards: Tensor) -> Tensor:
    """Rewards `[..., n]` minus their group's maximum, float64, no gradient: 0 for the best."""
    values = rewards.detach().double()
    return values - values.amax(dim=-1, keepdim=True)


def _before(values: Tensor) -> Tensor:
    """The sum of what stands before, along the last dimension, without the own value."""
    sums = values[..., :-1].cumsum(-1)
    return torch.cat([torch.zeros_like(values[..., :1]), sums], -1)


def _after(values: Tensor) -> Tensor:
    """The sum of what stands behind, along the last dimension."""
    return _before(values.flip(-1)).flip(-1)


def _sum_of_others(values: Tensor) -> Tensor:
    return _before(values) + _after(values)
