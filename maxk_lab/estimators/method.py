"""Any estimator of the catalogue with any baseline of the catalogue, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.estimators.catalogue import (
    BaselineRow,
    Choice,
    EstimatorRow,
    choose_baseline,
    choose_estimator,
    effective_k,
    refusal,
)
from maxk_lab.estimators.kinds import FittedRow
from maxk_lab.estimators.methods.maxk import BaselineFunction
from maxk_lab.estimators.normalization import normalize_weights, scale_by_gap
from maxk_lab.estimators.validation import check_k, check_rewards


def advantages(
    rewards: Tensor,
    *,
    estimator: str = "maxk",
    baseline: str = "centred",
    k: int = 1,
    stable_sort: bool = True,
    trajectory_weights: Mapping[str, Tensor] | None = None,
    weight_normalization: str = "none",
    min_gap_scale: float | None = None,
    ratios: Tensor | None = None,
    coefficients: Tensor | None = None,
) -> Tensor:
    """The weights w of the gradient estimate sum_i w_i grad log pi(tau_i) (a sum: w carries the factor 1/n).

    rewards: `[..., n]`, i.i.d. along n, higher is better. `estimator` and `baseline` are catalogue names,
    with a parameter in brackets where the row has one (`affine[0.5]`). `trajectory_weights` holds, by kind
    (length, logit_proxy, grad_norm: the *squared* score norm), what the baseline weights the samples with,
    `[..., n]` each; only the kind that `needed_weight` names is used. Returns `[..., n]`.

    `ratios`, `[..., n]`, are the positive importance ratios pi / pi_old of whole trajectories, for the estimators
    that `needs_ratios` names and for no other. `coefficients`, `[..., D]` over the same leading dimensions or ones
    that broadcast to them, are the fitted coefficients of a baseline that `fit_of` names: D = 1 for `affine` and
    `constant`, K - 1 for `ladder`; of `joint_optimum` the baseline b_i itself, D = n.

    Two options bias every estimate: `min_gap_scale` divides the weights by the group's range of rewards, or by
    this number if it is greater, and `weight_normalization` (a name of `WEIGHT_NORMALIZATIONS`) comes after it.

    Raises `LabError` for an unknown name and `ValueError` where the pair cannot run at this (n, K), a reward is
    not finite, a trajectory weight, ratio or coefficient is missing, wrong or not taken by the pair, or the baseline
    is one of tokens.
    """
    n = check_rewards(rewards)
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    k = check_k(effective_k(chosen.name, k), n)
    problem = refusal(chosen.name, base.name, n, k)
    if problem is not None:
        raise ValueError(problem)
    if base.row.token_level:
        raise ValueError(
            f"{base.name} gives one weight per token, not one per sample: call "
            "token_advantages(rewards, logit_proxies, mask)"
        )
    if chosen.row.needs_ratios:
        weights = _off_policy(chosen, base, rewards, k, ratios, stable_sort=stable_sort)
    else:
        if ratios is not None:
            raise ValueError(f"{chosen.name} takes no ratios: leave them out")
        function = partial(load(chosen.row.implementation), **chosen.params)
        takes = chosen.row.takes_baseline
        baseline_function = (
            _baseline_function(base, trajectory_weights, coefficients) if takes else None
        )
        weights = function(rewards, k, baseline_function, stable_sort=stable_sort)
    if min_gap_scale is not None:
        weights = scale_by_gap(weights, rewards, min_gap_scale)
    return normalize_weights(weights, weight_normalization)


def _off_policy(
    chosen: Choice[EstimatorRow],
    base: Choice[BaselineRow],
    rewards: Tensor,
    k: int,
    ratios: Tensor | None,
    *,
    stable_sort: bool,
) -> Tensor:
    if ratios is None:
        raise ValueError(
            f"{chosen.name} needs ratios, one positive number pi / pi_old per sample, got none"
        )
    function = partial(load(chosen.row.implementation), **chosen.params)
    weights: Tensor = function(rewards, ratios, k, base.name, stable_sort=stable_sort)
    return weights


def _baseline_function(
    base: Choice[BaselineRow],
    trajectory_weights: Mapping[str, Tensor] | None,
    coefficients: Tensor | None,
) -> BaselineFunction:
    """The row's function with all that is not rewards or K bound."""
    if isinstance(base.row, FittedRow) and base.row.fit(**base.params) is not None:
        if coefficients is None:
            raise ValueError(f"{base.name} needs its fitted coefficients, [..., D], got none")
        return partial(load(base.row.fitted), coefficients=coefficients)
    if coefficients is not None:
        raise ValueError(f"{base.name} takes no coefficients: leave them out")
    params = dict(base.params)
    needed = base.row.needs(**base.params)
    if needed is not None:
        if trajectory_weights is None or needed not in trajectory_weights:
            given = ", ".join(trajectory_weights or {}) or "none"
            raise ValueError(
                f"{base.name} needs trajectory_weights[{needed!r}], one positive number per sample, got {given}"
            )
        params["g"] = trajectory_weights[needed]
    return partial(load(base.row.implementation), **params)
