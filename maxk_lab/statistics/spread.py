"""An estimate with its error and skewness: tests and intervals that allow for the skewness.

The t statistic of a skewed mean is skewed the other way, and an interval from it misses on one
side. Hall's monotone cubic g(t) = t + a t²/3 + a² t³/27 + a/6 takes that out to second order, with
a the third cumulant of the mean over the cube of its error (Hall 1992, "On the removal of skewness
by transformation").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

# A few values that lack the tail of all others show too little skewness: where they are drawn anew,
# by so much more it is corrected. At 1 the means of 16 log-normal(1.5) or Pareto(2.5) values are
# covered in 92 %, at 1.3 in 94 %, and those of 64 in 97 %.
MORE_SKEWNESS = 1.3
# Below this effective number of squared deviations, one or two tell all there is of the spread.
FEWEST_EFFECTIVE = 2.0
# A skewness below this changes nothing, and dividing by it would.
_LEAST_SKEWNESS = 1e-9


def without_skewness(t: Any, skewness: Any) -> Any:
    """The nearer to 0 of t statistics and Hall's transformation of them, arrays of one shape.

    Hall's alone may go farther from 0 than the data bear, as the skewness is itself estimated.
    """
    hall = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    nearer = np.sign(t) * np.minimum(np.abs(t), np.abs(hall))
    return np.where(hall * t > 0, nearer, 0.0)


def one_without_skewness(t: float, skewness: float) -> float:
    """The same of a single t statistic, in a tenth of the time."""
    hall = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    return math.copysign(min(abs(t), abs(hall)), t) if hall * t > 0 else 0.0


def reach_of_t(freedom: float, tail: float) -> float:
    """How far from 0 Student's t has this one-sided p-value."""
    return float(-scipy.special.stdtrit(freedom, tail))


def clopper_pearson(ones: float, count: int, level: float) -> tuple[float, float]:
    """Both ends of Clopper and Pearson's (1934) interval of a share, of `ones` of `count` or parts.

    Values in [0, 1] that sum to `ones` have at most the variance of zeros and ones: of them it
    covers at least as often.
    """
    tail = (1 - level) / 2
    low = scipy.special.betaincinv(ones, count - ones + 1, tail) if ones > 0 else 0.0
    high = scipy.special.betaincinv(ones + 1, count - ones, 1 - tail) if ones < count else 1.0
    return float(low), float(high)


@dataclass(frozen=True)
class Spread:
    """An estimate with its standard error, its skewness and the freedom of the error.

    `skewness` is the third cumulant of the estimate over error³, `freedom` the degrees of freedom
    that Student's t is read at.
    """

    mean: float
    error: float
    skewness: float
    freedom: float

    def t(self) -> float:
        """The t statistic against 0, its skewness taken out; 0 where nothing varies."""
        if not self.error > 0:
            return 0.0
        return one_without_skewness(self.mean / self.error, self.skewness)

    def p_above(self) -> float:
        """P(at least so far above 0) where the mean is 0; 1 where nothing varies."""
        return float(scipy.special.stdtr(self.freedom, -self.t())) if self.error > 0 else 1.0

    def p_apart(self) -> float:
        """P(at least so far from 0, on either side) where the mean is 0; 1 where nothing varies."""
        tail = scipy.special.stdtr(self.freedom, -abs(self.t()))
        return float(2 * tail) if self.error > 0 else 1.0

    def ends(self, level: float) -> tuple[float, float]:
        """The ends of the two-sided interval: the values of the mean that are not rejected."""
        if not self.error > 0:
            return (self.mean, self.mean) if self.error == 0 else (float("nan"), float("nan"))
        below, above = self._reach((1 - level) / 2)
        return self.mean - self.error * below, self.mean + self.error * above

    def farthest(self, tail: float) -> float:
        """How many errors from 0 an estimate has this one-sided p-value, on the farther side."""
        return max(self._reach(tail))

    def _reach(self, tail: float) -> tuple[float, float]:
        """How many errors above and below 0 an estimate has this one-sided p-value."""
        reach = reach_of_t(self.freedom, tail)
        return max(reach, self._back(reach)), max(reach, -self._back(-reach))

    def _back(self, value: float) -> float:
        """The inverse of Hall's transformation."""
        a = self.skewness
        if abs(a) < _LEAST_SKEWNESS:
            return value
        return float(3 / a * (np.cbrt(1 + a * (value - a / 6)) - 1))
