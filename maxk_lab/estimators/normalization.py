"""Rescaling of finished weights: off by default, biased, and without torch at import."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from torch import Tensor

# Every way to normalise the weights of a group, and what it does.
WEIGHT_NORMALIZATIONS = {
    "none": "the weights as they are",
    "zscore": (
        "(w - mean w) / (std w + 1e-8) in the group, std with ddof = 1; biased in direction; "
        "drops the factor 1/n"
    ),
    "sum_to_zero": (
        "w - mean w in the group; biased, for `centred` and others that sum to 0 already "
        "without effect"
    ),
}
_EPS = 1e-8


def normalize_weights(weights: Tensor, how: str) -> Tensor:
    """Weights `[..., n]` normalised within each group, in their own dtype.

    Raises `ValueError` for an unknown name and for `zscore` of a group of one.
    """
    if how not in WEIGHT_NORMALIZATIONS:
        also = did_you_mean(how, WEIGHT_NORMALIZATIONS)
        raise LabError(
            f"weight_normalization must be one of {', '.join(WEIGHT_NORMALIZATIONS)}, got "
            f"{how!r}{also}"
        )
    if how == "none":
        return weights
    exact = weights.double()
    centred = exact - exact.mean(-1, keepdim=True)
    if how == "zscore":
        if weights.shape[-1] < 2:
            raise LabError("weight_normalization zscore needs n >= 2 samples, got n = 1")
        centred = centred / (exact.std(-1, keepdim=True) + _EPS)
    return centred.to(weights.dtype)


def scale_by_gap(weights: Tensor, rewards: Tensor, min_gap_scale: float) -> Tensor:
    """Weights `[..., n]` over max(range of the group's rewards, min_gap_scale), in their dtype.

    Biased: the own sample is in the range. Raises `ValueError` unless min_gap_scale is a finite
    number > 0.
    """
    if (
        isinstance(min_gap_scale, bool)
        or not isinstance(min_gap_scale, int | float)
        or not (math.isfinite(min_gap_scale) and min_gap_scale > 0)
    ):
        raise LabError(f"min_gap_scale must be a finite number > 0 or None, got {min_gap_scale!r}")
    values = rewards.detach().double()
    reach = values.amax(dim=-1, keepdim=True) - values.amin(dim=-1, keepdim=True)
    return (weights.double() / reach.clamp(min=float(min_gap_scale))).to(weights.dtype)
