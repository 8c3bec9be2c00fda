"""The slow twin of any pair of the catalogue, and what both need of a group besides its rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from maxk_lab.estimators import reference
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.estimators.check.bandit import some_coefficients
from maxk_lab.estimators.check.result import importance_ratios, trajectory_weights
from maxk_lab.estimators.kinds import ObjectiveRow
from maxk_lab.estimators.method import Method


def slow_twin(estimator: str, baseline: str) -> Callable[..., Tensor] | None:
    """The slow twin of the pair, a function of rewards, K and what `inputs` gives for them; or None."""
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    if chosen.row.needs_ratios:
        of_ratios = reference.RATIO_TWINS.get(chosen.row.name)
        return of_ratios and (lambda rewards, k, ratios: of_ratios(rewards, ratios, k, base.name))
    if not chosen.row.takes_baseline:
        alone = reference.ESTIMATOR_TWINS.get(chosen.row.name)
        return alone and (lambda rewards, k: alone(rewards, k, **chosen.params))
    twin_k = reference.TWIN_K.get(chosen.row.name)
    if twin_k is None:
        return None
    if Method.parse(estimator, baseline).fit is not None:
        fitted = reference.FITTED_TWINS.get(base.row.name)
        return fitted and (
            lambda rewards, k, coefficients: fitted(rewards, twin_k(k), coefficients)
        )
    twin = reference.TWINS.get(base.row.name)
    if twin is None:
        return None
    kind = Method.parse(estimator, baseline).needed_weight

    def slow(
        rewards: Tensor, k: int, trajectory_weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        own: dict[str, Any] = {}
        if trajectory_weights is not None and kind is not None:
            own["g"] = trajectory_weights[kind]
        if isinstance(chosen.row, ObjectiveRow):
            own["objective"] = Method.parse(chosen.name, k=k).objective
        return twin(rewards, twin_k(k), **base.params, **own)

    return slow


def inputs(estimator: str, baseline: str, group: Tensor, k: int) -> dict[str, Any]:
    """What `advantages` needs for the pair besides the rewards `[..., n]` of `group` and K, by argument."""
    found: dict[str, Any] = {}
    if Method.parse(estimator, baseline).needed_weight is not None:
        found["trajectory_weights"] = trajectory_weights(group)
    if Method.parse(estimator).needs_ratios:
        found["ratios"] = importance_ratios(group)
    if Method.parse(estimator, baseline).fit is not None:
        family = choose_baseline(baseline).row.name
        # The baseline itself, or D numbers.
        count = k - 1 if family == "ladder" else 1
        found["coefficients"] = (
            importance_ratios(group) if family == "joint_optimum" else some_coefficients(count)
        )
    return found
