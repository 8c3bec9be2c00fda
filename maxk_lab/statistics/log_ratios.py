"""Paired comparisons: bootstrap intervals of the logarithm of one cell's measure over another's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxk_lab.statistics.intervals import (
    Interval,
    bootstrap,
    defined_members,
    of_moments,
    undefined,
)
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.statistics.units import Array, Units


def log_ratio(
    a: Units, b: Units, *, measure: str = "variance", level: float = 0.95, seed: int = 0
) -> Interval:
    """Paired interval of log(measure of a / measure of b), both from the same instances and pools.

    NaN with a reason where the two have different units, as when the groups of one were enumerated
    and those of the other sampled.
    """
    if not np.array_equal(a.stratum, b.stratum):
        return undefined(level, "the two rest on different resampling units: no paired comparison")
    row = MEASURES.get(measure)
    if row.of_units:
        if measure not in a.measures or measure not in b.measures:
            return undefined(level, "not measured")
        own = a.measures[measure], b.measures[measure]
        return _log_ratio_of_means(*own, a.members(), measure, level=level, seed=seed)
    if measure == "squared_bias" and a.squared_bias is not None and b.squared_bias is not None:
        # From the moments, what is much smaller than them would be lost to rounding.
        return _log_ratio_of_means(
            a.squared_bias, b.squared_bias, a.members(), measure, level=level, seed=seed
        )
    columns, members = np.concatenate([a.columns(), b.columns()]), a.members()
    statistic = of_moments(row.inverse_of or measure)
    sign = -1.0 if row.inverse_of else 1.0
    if np.isnan(columns[[0, 1, 4, 5]]).any():
        return undefined(level, "the second moments were not measured")
    if not row.judged:  # it does not look at the gradient judged against
        columns = np.nan_to_num(columns)

    def ratio(means: Array) -> Array:
        top, bottom = statistic(means[:4]), statistic(means[4:])
        with np.errstate(invalid="ignore", divide="ignore"):
            result: Array = sign * (np.log(top) - np.log(bottom))
        return result

    found = bootstrap(columns, members, ratio, level=level, seed=seed)
    if np.isnan(found.value) or np.isinf(found.value):
        return undefined(level, f"{measure} of one side is not positive")
    return found


def _log_ratio_of_means(
    a: Array,
    b: Array,
    members: Sequence[NDArray[np.int64]],
    measure: str,
    *,
    level: float,
    seed: int,
) -> Interval:
    """The log ratio of numbers that every unit has of its own, over the units that have both."""
    columns = np.stack([a, b])
    members = defined_members(columns.sum(0), members)
    if not members:
        return undefined(level, "undefined on every resampling unit of a stratum")

    def ratio(means: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            result: Array = np.log(means[0]) - np.log(means[1])
        return result

    found = bootstrap(columns, members, ratio, level=level, seed=seed)
    if np.isnan(found.value) or np.isinf(found.value):
        return undefined(level, f"{measure} of one side is not positive")
    return found
