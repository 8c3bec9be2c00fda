"""Any estimator of the catalogue with any baseline of the catalogue, in one call."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator, effective_k, refusal
from maxk_lab.estimators.validation import check_k, check_rewards


def advantages(
    rewards: Tensor,
    *,
    estimator: str = "maxk",
    baseline: str = "centred",
    k: int = 1,
    stable_sort: bool = True,
) -> Tensor:
    """The weights w of the gradient estimate sum_i w_i grad log pi(tau_i) (a sum: w carries the factor 1/n).

    rewards: `[..., n]`, i.i.d. along n, higher is better. `estimator` and `baseline` are catalogue names,
    with a parameter in brackets where the row has one (`affine[0.5]`). Returns `[..., n]`. Raises `LabError`
    for an unknown name and `ValueError` where the pair cannot run at this (n, K) or a reward is not finite.
    """
    n = check_rewards(rewards)
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    k = check_k(effective_k(chosen.name, k), n)
    problem = refusal(chosen.name, base.name, n, k)
    if problem is not None:
        raise ValueError(problem)
    function = partial(load(chosen.row.implementation), **chosen.params)
    baseline_function = partial(load(base.row.implementation), **base.params)
    weights: Tensor = function(rewards, k, baseline_function, stable_sort=stable_sort)
    return weights
