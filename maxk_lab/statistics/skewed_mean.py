"""The interval of a mean of independent values of any skewness, in closed form.

Student's t of skewed values is skewed itself: of 128 log-normal values its 95 % interval covers
86 % to 92 %. Each end here is the further of Hall's and Student's (`spread.py`).
`benchmarks/calibration/` measures both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from maxk_lab.ranges import ANYWHERE, Range
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.spread import (
    FEWEST_EFFECTIVE,
    MORE_SKEWNESS,
    Spread,
    clopper_pearson,
)
from maxk_lab.statistics.units import Array

# Values that agree so far are the same.
_SAME_DIGITS = 9


@dataclass(frozen=True)
class SkewedMean(Spread):
    """A mean with its spread, of which `MORE_SKEWNESS` times the estimated skewness is corrected.

    `effective` is the effective number (Σw)²/Σw² of the squared deviations w: of values of a
    normal distribution a third of their count, of a single one that differs from all others 1.
    """

    effective: float
    count: int

    @classmethod
    def of(cls, values: ArrayLike, stratum: ArrayLike | None = None) -> SkewedMean:
        """Return that of values [U]; with strata [U], of the mean over these of their means.

        Raises `ValueError` where a stratum has fewer than two values.
        """
        found = np.asarray(values, dtype=float)
        groups = [found] if stratum is None else _split(found, np.asarray(stratum))
        if min(map(len, groups)) < 2:
            raise ValueError("a stratum has fewer than two values")
        counts = np.array([len(group) for group in groups])
        # The mean of equal values may differ from them in its last bit.
        away = [(group - group.mean()) * (np.ptp(group) > 0) for group in groups]
        variances = np.array([d @ d for d in away]) / (counts * (counts - 1.0))
        error = math.sqrt(variances.sum()) / len(groups)
        if not error > 0:
            freedom, effective, skewness = float((counts - 1).sum()), 0.0, 0.0
        else:
            freedom = float(variances.sum() ** 2 / (variances**2 / (counts - 1)).sum())
            squares = np.concatenate([(d / len(d)) ** 2 for d in away])
            effective = float(squares.sum() ** 2 / (squares @ squares))
            skewness = sum(map(_third_cumulant, away)) / (len(groups) * error) ** 3
        mean = float(np.mean([group.mean() for group in groups]))
        return cls(mean, error, MORE_SKEWNESS * skewness, freedom, effective, len(found))

    def p_value(self, at: float = 0.0) -> float:
        """The two-sided p-value of a mean of `at`: 1 minus the level whose interval ends there."""
        return replace(self, mean=self.mean - at).p_apart() if self.error > 0 else math.nan


def skewed_mean(
    values: ArrayLike,
    level: float,
    *,
    within: Range = ANYWHERE,
    stratum: ArrayLike | None = None,
    of: str = "values",
) -> Interval:
    """The interval of the mean of values [U], or of the mean over strata [U] of their means.

    The values lie `within` a range, as then does the interval. Where a value or two carry all of
    the spread it rests on the range alone; without one there is the mean and the reason why it has
    no interval, with the word `of` for the values.
    """
    found = np.asarray(values, dtype=float)
    if np.isnan(found).any():
        return undefined(level, f"not defined on all {of}")
    if len(found) < 2 or (
        stratum is not None and np.unique(stratum, return_counts=True)[1].min() < 2
    ):
        value = float(found.mean()) if len(found) else math.nan
        return Interval(value, math.nan, math.nan, level, f"fewer than two {of}: no interval")
    told = SkewedMean.of(found, stratum)
    if told.effective >= FEWEST_EFFECTIVE - 1e-9:
        low, high = map(within.clamped, told.ends(level))
        return Interval(told.mean, low, high, level)
    if within.bounded and stratum is None:
        return _of_range(found, level, within)
    why = (
        f"an effective {told.effective:.1f} of {told.count} {of} carry its spread"
        if told.error > 0
        else f"the same on all {told.count} {of}"
    )
    return Interval(told.mean, math.nan, math.nan, level, f"{why}: no interval")


def _of_range(values: Array, level: float, within: Range) -> Interval:
    """The interval of bounded values of which hardly any differ, or one by far the most.

    Where most are the same, the mean is off theirs by no more than the share of the others, which
    is that of a count, times the way to an end of the range. Elsewhere the mean is a share itself.
    """
    value, count = float(values.mean()), len(values)
    common, times = np.unique(np.round(values, _SAME_DIGITS), return_counts=True)
    usual, others = float(common[times.argmax()]), count - int(times.max())
    if 2 * others < count:
        _, share = clopper_pearson(others, count, level)
        low, high = (usual + share * (end - usual) for end in (within.low, within.high))
    else:
        low, high = map(within.at, clopper_pearson(within.share(value) * count, count, level))
    return Interval(value, min(low, value), max(high, value), level)


def _third_cumulant(away: Array) -> float:
    """The third cumulant of the mean of values with these deviations; 0 for two of them."""
    count = len(away)
    return float((away**3).sum()) / (count * (count - 1) * (count - 2)) if count > 2 else 0.0


def _split(values: Array, stratum: Array) -> Sequence[Array]:
    return [values[stratum == which] for which in np.unique(stratum)]
