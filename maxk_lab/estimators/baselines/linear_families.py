"""The linear families of baselines: weights without a coefficient, and what each moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.ranks import derived, maximum
from maxk_lab.estimators.ranks.combinatorics import cached
from maxk_lab.estimators.ranks.gaps import Rule, in_own_order, sort_rewards, weights_by_rank
from maxk_lab.estimators.validation import check_k, check_rewards


def family_terms(
    rewards: Tensor, k: int, family: str, *, stable_sort: bool = True
) -> tuple[Tensor, Tensor]:
    """The weights of a family as w = start + directions @ coefficients, these being `[..., D]`.

        affine    D = 1    start centred, direction subloo - centred, for 2 <= K < n;
                           the coefficient is alpha
        ladder    D = K-1  start centred, direction k (K/n) (rho_-i(K) - rho_-i(k)), for 2 <= K < n,
                           with rho_-i(k) the Max@k value of the others; the coefficients are
                           alpha_1 to alpha_(K-1), and alpha_K is what is left of 1
        constant  D = 1    start the score weights, direction -K/n, for 1 <= K <= n;
                           the coefficient c is in units of reward

    Unbiased for every coefficient that does not depend on the samples' own rewards and scores.

    rewards: `[..., n]`, i.i.d. along n, higher is better. Returns start `[..., n]` and directions
    `[..., n, D]` in the samples' order, float64 whatever the rewards' dtype, so that nothing is
    lost in a sum of large terms. Raises `ValueError` for another family, K out of range or a reward
    that is not finite. Takes O(nD) after the sort.
    """
    if family not in FAMILIES:
        raise LabError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    n = check_rewards(rewards)
    k = check_k(k, n) if family == "constant" else check_k(k, n, low=2, below_n=True)
    start, directions = FAMILIES[family](n, k, rewards.device)
    ranked = sort_rewards(rewards.detach(), stable_sort=stable_sort)
    shift = (ranked.gaps @ directions.shift).unsqueeze(-2) + directions.constant
    steps = (ranked.gaps.unsqueeze(-1) * directions.steps).cumsum(-2)
    by_rank = shift + torch.cat([torch.zeros_like(shift), steps], dim=-2)
    moves = torch.empty_like(by_rank).scatter_(
        -2, ranked.order.unsqueeze(-1).expand(by_rank.shape), by_rank
    )
    # Last, for it writes over the sorted rewards.
    return in_own_order(weights_by_rank(start, ranked), ranked, torch.float64), moves


def coefficient_count(family: str, k: int) -> int:
    """D, how many coefficients the family has at K."""
    return k - 1 if family == "ladder" else 1


@dataclass(frozen=True)
class Directions:
    """The coefficients of D directions on the gaps: `steps` and `shift` float64 `[n-1, D]`.

    `constant` is added to each.
    """

    steps: Tensor
    shift: Tensor
    constant: float = 0.0

    @classmethod
    def of(cls, directions: list[Rule]) -> Directions:
        """The directions of rules that do not see a constant added to the rewards."""
        return cls(
            torch.stack([d.steps for d in directions], 1),
            torch.stack([d.shift for d in directions], 1),
        )


@cached
def _affine(n: int, k: int, device: torch.device) -> tuple[Rule, Directions]:
    centred = derived.centred(n, k, None, device)
    return centred, Directions.of([maximum.subloo(n, k, device) + -1.0 * centred])


@cached
def _ladder(n: int, k: int, device: torch.device) -> tuple[Rule, Directions]:
    values = [maximum.left_out_value(n, rung, device) for rung in range(1, k + 1)]
    return derived.centred(n, k, None, device), Directions.of(
        [(k / n) * (values[-1] + -1.0 * v) for v in values[:-1]]
    )


@cached
def _constant(n: int, k: int, device: torch.device) -> tuple[Rule, Directions]:
    still = torch.zeros(n - 1, 1, dtype=torch.float64, device=device)
    return maximum.score(n, k, device), Directions(still, still, -k / n)


# Family → (n, K, device) → the rule of the start and those of the directions.
FAMILIES: dict[str, Callable[[int, int, torch.device], tuple[Rule, Directions]]] = {
    "affine": _affine,
    "ladder": _ladder,
    "constant": _constant,
}
