"""The typical instance: medians over instances, with intervals that need no tail at all.

A mean over instances may be that of one or two of them. The median of what every instance has of
its own is not, and its interval between two order statistics holds whatever their distribution
(Conover 1999, "Practical nonparametric statistics", section 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from maxk_lab.statistics.errors import LIKE_THESE
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds.apart import sign_test
from maxk_lab.statistics.units import Array, Units


def median_interval(values: Array, level: float) -> Interval:
    """The median of values [U] between order statistics; `level` is the least that it covers.

    Undefined, with the number that would do, where so few values have no such interval.
    """
    count = len(values)
    out = _left_out(count, level)
    if np.isnan(values).any():
        return undefined(level, "not defined on every instance")
    if out < 1:
        needed = int(np.floor(1 - np.log2(1 - level))) + 1
        return undefined(level, f"a median of {count} has no such interval: {needed} are needed")
    ordered = np.sort(values)
    return Interval(
        float(np.median(values)),
        float(ordered[out - 1]),
        float(ordered[count - out]),
        level,
        question=LIKE_THESE,
    )


@cache
def _left_out(count: int, level: float) -> int:
    """How many values on either side lie beyond the ends."""
    from scipy import stats

    # P(fewer than k of the values lie below the median) for k = 1, 2, ...
    below = stats.binom.cdf(np.arange(count), count, 0.5)
    return int(np.searchsorted(below, (1 - level) / 2))


def typical_relative_variance(units: Units, *, unbiased: bool, level: float) -> Interval:
    """The median over instances of tr Cov ĝ / ‖E ĝ‖².

    Of an estimator that is `unbiased` by proof the norm is that of ∇J, which is known better. An
    instance whose norm is not positive as estimated counts as infinite.
    """
    norm = units.truth if unbiased and not np.isnan(units.truth).any() else units.mean_square
    return median_interval(_quotients(units.m2 - units.mean_square, norm), level)


@dataclass(frozen=True)
class TypicalRatio:
    """The median over instances of one variance over another, and on how many it is below 1.

    `ties` are the instances with a ratio of 1, up to rounding; `p_value` is that of the two-sided
    sign test without them.
    """

    median: Interval
    below: int
    ties: int
    instances: int
    p_value: float


# Two ways to write one estimator differ by rounding alone.
_ROUNDING = 1e-9


def typical_ratio(a: Units, b: Units, *, level: float) -> TypicalRatio:
    """The variance of a over that of b on the typical instance, paired by instance.

    Raises `ValueError` where the two have different instances.
    """
    if not np.array_equal(a.stratum, b.stratum):
        raise ValueError("the two rest on different instances: no paired comparison")
    ratios = _quotients(a.m2 - a.mean_square, b.m2 - b.mean_square)
    ties = np.abs(ratios - 1) <= _ROUNDING
    below = int((ratios[~ties] < 1).sum())
    told = int((~ties).sum())
    return TypicalRatio(
        median_interval(ratios, level),
        below,
        int(ties.sum()),
        len(ratios),
        sign_test(below, told - below),
    )


def _quotients(top: Array, bottom: Array) -> Array:
    """Quotients [U]: infinite over what is not positive, 1 where neither is."""
    nothing = np.where(top > 0, np.inf, 1.0)
    found: Array = np.divide(np.maximum(top, 0.0), bottom, out=nothing, where=bottom > 0)
    return found
