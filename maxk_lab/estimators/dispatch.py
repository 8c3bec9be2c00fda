"""Any estimator of the catalogue with any baseline of the catalogue, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator, effective_k, refusal
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
) -> Tensor:
    """The weights w of the gradient estimate sum_i w_i grad log pi(tau_i) (a sum: w carries the factor 1/n).

    rewards: `[..., n]`, i.i.d. along n, higher is better. `estimator` and `baseline` are catalogue names,
    with a parameter in brackets where the row has one (`affine[0.5]`). `trajectory_weights` holds, by kind
    (length, logit_proxy, grad_norm: the *squared* score norm), what the baseline weights the samples with,
    `[..., n]` each; only the kind that `needed_weight` names is used. Returns `[..., n]`.

    Two options bias every estimate: `min_gap_scale` divides the weights by the group's range of rewards, or by
    this number if it is greater, and `weight_normalization` (a name of `WEIGHT_NORMALIZATIONS`) comes after it.

    Raises `LabError` for an unknown name and `ValueError` where the pair cannot run at this (n, K), a reward is
    not finite, a trajectory weight is missing or none, or the baseline is one of tokens.
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
    params = dict(base.params)
    needed = base.row.needs(**base.params)
    if needed is not None:
        if trajectory_weights is None or needed not in trajectory_weights:
            given = ", ".join(trajectory_weights or {}) or "none"
            raise ValueError(
                f"{base.name} needs trajectory_weights[{needed!r}], one positive number per sample, got {given}"
            )
        params["g"] = trajectory_weights[needed]
    function = partial(load(chosen.row.implementation), **chosen.params)
    baseline_function = partial(load(base.row.implementation), **params)
    weights: Tensor = function(rewards, k, baseline_function, stable_sort=stable_sort)
    if min_gap_scale is not None:
        weights = scale_by_gap(weights, rewards, min_gap_scale)
    return normalize_weights(weights, weight_normalization)
