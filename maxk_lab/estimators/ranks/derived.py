"""The rules of the baselines of rewards alone: four primitives, and the sums of these.

All are functions of n samples, K, an objective E[sum_j alpha_j R_(j:K)] of that K (None for the
maximum) and a device. `maximum` and `l_statistic` have the primitives; the sums are the same for
both.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import l_statistic, maximum
from maxk_lab.estimators.ranks.combinatorics import cached
from maxk_lab.estimators.ranks.gaps import Rule, apply_rule
from maxk_lab.estimators.validation import check_k, check_rewards

RuleOf = Callable[[int, int, Objective | None, torch.device], Rule]


def weigh(
    rule_of: RuleOf,
    rewards: Tensor,
    k: int,
    objective: Objective | None = None,
    *,
    low: int = 1,
    below_n: bool = False,
    stable_sort: bool,
) -> Tensor:
    """The rule's w for rewards `[..., n]` at `low` <= K <= n (K < n if `below_n`): `[..., n]`."""
    n = check_rewards(rewards)
    rule = rule_of(n, check_k(k, n, low=low, below_n=below_n), objective, rewards.device)
    return apply_rule(rule, rewards, stable_sort=stable_sort)


def _primitive(
    of_maximum: Callable[[int, int, torch.device], Rule],
    of_any: Callable[[int, Objective, torch.device], Rule],
) -> RuleOf:
    """The one or the other. It raises `ValueError` for an objective of another K."""

    def rule(n: int, k: int, objective: Objective | None, device: torch.device) -> Rule:
        if objective is not None and objective.k != k:
            raise LabError(f"objective must be one of k = {k} rewards, got {objective.name}")
        if objective is None or objective.is_max:
            return of_maximum(n, k, device)
        return of_any(n, objective, device)

    return rule


# s_i, the score weights.
score = _primitive(maximum.score, l_statistic.score)
# The value of the other n-1 samples (K < n).
left_out_value = _primitive(maximum.left_out_value, l_statistic.left_out_value)
# s_i minus the mean of s over the group.
group_mean = _primitive(maximum.group_mean, l_statistic.group_mean)
# s_i - (K/n) * left-out value at K-1 (K >= 2).
subloo = _primitive(maximum.subloo, l_statistic.subloo)


@cached
def centred(n: int, k: int, objective: Objective | None, device: torch.device) -> Rule:
    """s_i - (K/n) * left-out value, which is n / (n-K) * (s_i - mean s) (K < n)."""
    return (n / (n - k)) * group_mean(n, k, objective, device)


@cached
def sample_loo(n: int, k: int, objective: Objective | None, device: torch.device) -> Rule:
    """s_i - left-out value (K < n)."""
    return score(n, k, objective, device) + -1.0 * left_out_value(n, k, objective, device)


@cached
def pkpo_sloo(n: int, k: int, objective: Objective | None, device: torch.device) -> Rule:
    """s_i - K / (n-1) * left-out value (K < n)."""
    share = k / (n - 1)
    return score(n, k, objective, device) + -share * left_out_value(n, k, objective, device)


@cached
def affine(n: int, k: int, objective: Objective | None, alpha: float, device: torch.device) -> Rule:
    """(1 - alpha) * centred + alpha * subloo (K < n, and K >= 2 unless alpha = 0)."""
    rule = (1.0 - alpha) * centred(n, k, objective, device)
    return rule + alpha * subloo(n, k, objective, device) if alpha != 0 else rule
