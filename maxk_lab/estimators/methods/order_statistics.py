"""The estimators of the named L-statistics: each binds its objective at K and takes the baseline's weights for it.

All take rewards `[..., n]` (i.i.d. along n, higher is better), K and a baseline function of `any_objective`, and
return its weights `[..., n]` for the gradient of E[sum_j alpha_j R_(j:K)], a sum over samples. They raise
`ValueError` where K rewards have no such statistic. Source: OrderGrad, arXiv 2606.06096.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.parameters import spell


class ObjectiveBaseline(Protocol):
    """A baseline function that takes the objective to be the score weights and the values of."""

    def __call__(
        self,
        rewards: Tensor,
        k: int,
        *,
        objective: Objective | None = None,
        stable_sort: bool = True,
    ) -> Tensor: ...


def top_m(
    rewards: Tensor,
    k: int,
    baseline_function: ObjectiveBaseline,
    *,
    m: int = 2,
    stable_sort: bool = True,
) -> Tensor:
    """The mean of the m best of K rewards, m <= K: the maximum for m = 1, the mean for m = K."""
    return _weights(f"top_m[{m}]", rewards, k, baseline_function, stable_sort=stable_sort)


def cvar_upper(
    rewards: Tensor,
    k: int,
    baseline_function: ObjectiveBaseline,
    *,
    q: float = 0.25,
    stable_sort: bool = True,
) -> Tensor:
    """The mean of the best share q of K rewards, 0 < q <= 1: the maximum up to q = 1/K, the mean for q = 1."""
    return _weights(f"cvar_upper[{q}]", rewards, k, baseline_function, stable_sort=stable_sort)


def cvar_lower(
    rewards: Tensor,
    k: int,
    baseline_function: ObjectiveBaseline,
    *,
    q: float = 0.25,
    stable_sort: bool = True,
) -> Tensor:
    """The mean of the worst share q of K rewards, 0 < q <= 1: the minimum up to q = 1/K, the mean for q = 1."""
    return _weights(f"cvar_lower[{q}]", rewards, k, baseline_function, stable_sort=stable_sort)


def median(
    rewards: Tensor, k: int, baseline_function: ObjectiveBaseline, *, stable_sort: bool = True
) -> Tensor:
    """The middle one of K rewards, or the mean of the middle two."""
    return _weights("median", rewards, k, baseline_function, stable_sort=stable_sort)


def trimmed_mean(
    rewards: Tensor,
    k: int,
    baseline_function: ObjectiveBaseline,
    *,
    p: float = 0.1,
    stable_sort: bool = True,
) -> Tensor:
    """The mean of K rewards without the share p at either end, 0 <= p < 1/2."""
    return _weights(f"trimmed_mean[{p}]", rewards, k, baseline_function, stable_sort=stable_sort)


def l_statistic(
    rewards: Tensor,
    k: int,
    baseline_function: ObjectiveBaseline,
    *,
    alpha: tuple[float, ...] = (1.0,),
    stable_sort: bool = True,
) -> Tensor:
    """sum_j alpha_j R_(j:K) with `alpha` as given, least reward first; K is their number."""
    return _weights(
        f"l_statistic[{spell(alpha)}]", rewards, k, baseline_function, stable_sort=stable_sort
    )


def _weights(
    form: str, rewards: Tensor, k: int, baseline_function: ObjectiveBaseline, *, stable_sort: bool
) -> Tensor:
    try:
        objective = Objective(form, k)
    except LabError as error:
        raise ValueError(str(error)) from None
    return baseline_function(rewards, k, objective=objective, stable_sort=stable_sort)
