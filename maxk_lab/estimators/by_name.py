"""The functions of any pair of the catalogue by its names, in one call each: see `Method`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective

if TYPE_CHECKING:
    from torch import Tensor


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
    """The weights `[..., n]` of any pair of the catalogue at K = `k`: see `Method.weights`.

    rewards: `[..., n]`.

    `estimator` and `baseline` are catalogue names, with a parameter in brackets where the row has
    one (`affine[0.5]`). Raises `LabError` for an unknown one, and what `Method.weights` raises.
    """
    return Method.parse(estimator, baseline, k).weights(
        rewards,
        stable_sort=stable_sort,
        trajectory_weights=trajectory_weights,
        weight_normalization=weight_normalization,
        min_gap_scale=min_gap_scale,
        ratios=ratios,
        coefficients=coefficients,
    )


def objective(estimator: str, k: int) -> Objective:
    """The objective of the estimator at `k`, as `Method.objective`."""
    return Method.parse(estimator, k=k).objective


def needed_weight(estimator: str, baseline: str) -> str | None:
    """The trajectory weight that the pair needs, as `Method.needed_weight`."""
    return Method.parse(estimator, baseline).needed_weight


def needs_ratios(estimator: str) -> bool:
    """Whether the estimator needs importance ratios, as `Method.needs_ratios`."""
    return Method.parse(estimator).needs_ratios


def fit_of(estimator: str, baseline: str) -> str | None:
    """The way the pair's coefficients are fitted, as `Method.fit`."""
    return Method.parse(estimator, baseline).fit


def is_token_level(baseline: str) -> bool:
    """Whether the baseline gives one weight per token, as `Method.is_token_level`."""
    return Method.parse("maxk", baseline).is_token_level
