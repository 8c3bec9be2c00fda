"""Intervals of the means over seeds: Student's t on a scale that the values cannot leave.

Of a single seed they are over its instances. `benchmarks/calibration/` measures how often they
cover: five seeds that are normal, or log-normal and bounded below, in 93 % to 96 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from maxk_lab.ranges import ANYWHERE, Range
from maxk_lab.statistics.errors import LIKE_THESE
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.skewed_mean import SkewedMean, skewed_mean
from maxk_lab.statistics.units import Array

# The mean over the instances of a seed, with the ends of its interval over these.
Mean = tuple[float | None, float | None, float | None]
SEEDS = "seeds"
SAME = "the same in every seed: nothing tells how much another may differ"
# Values this far below their mean tell no more of its upper tail than those at this share of it.
_LEAST_SHARE = 0.1


def over_seeds(values: Sequence[float], level: float, within: Range = ANYWHERE) -> Interval:
    """The interval of the mean of per-seed values that lie `within` a range.

    It tells what another seed may give, with other instances: seeds are independent and share
    nothing that is random, so their values are i.i.d. Student's t is on the logit scale where both
    ends of the range are known; where one is, it is that of log-normal values (Olsson 2005,
    "Confidence intervals for the mean of a log-normal distribution", J. Stat. Educ. 13).
    """
    found = np.asarray(values, dtype=float)
    if np.isnan(found).any():
        return undefined(level, "not defined in every seed")
    if len(found) < 2:
        return undefined(level, "one seed: no interval over seeds")
    low, high = ends(found, level, within)
    if math.isnan(low):
        return Interval(float(found.mean()), math.nan, math.nan, level, SAME)
    return Interval(float(found.mean()), float(low), float(high), level, question=SEEDS)


def ends(values: Array, level: float, within: Range = ANYWHERE) -> Array:
    """Both ends [2, ...] of `over_seeds` for the means of values [S, ...] of at least two seeds.

    NaN where all seeds have the same, or where one has none.
    """
    within, point = _kept(values, within), _point(len(values), level)
    # Where nothing differs the scales below divide by 0.
    with np.errstate(all="ignore"):
        if within.bounded:
            found = _logit_ends(values, point, within)
        elif math.isfinite(within.low):
            found = within.low + _log_normal_ends(values - within.low, point)
        elif math.isfinite(within.high):
            found = (within.high - _log_normal_ends(within.high - values, point))[::-1]
        else:
            found = values.mean(axis=0) + _both(point * _error(values))
    return np.where(np.ptp(values, axis=0) > 0, found, math.nan)


def p_value(values: Sequence[float], within: Range = ANYWHERE) -> float:
    """The two-sided p-value of a mean of 0: at the level of 1 minus it, `over_seeds` ends there.

    NaN where there is no such interval. Of ranges, both ends must be known or none.
    """
    found = np.asarray(values, dtype=float)
    if np.isnan(found).any() or len(found) < 2 or np.ptp(found) == 0:
        return math.nan
    within = _kept(found, within)
    mean, error = float(found.mean()), float(_error(found))
    if within.bounded:
        share = within.share(mean)
        away = scipy.special.logit(share) - scipy.special.logit(within.share(0.0))
        mean, error = float(away), error / (within.high - within.low) / (share * (1 - share))
    return 2 * float(scipy.special.stdtr(len(found) - 1, -abs(mean / error)))


def over_instances(values: Sequence[float], level: float, within: Range = ANYWHERE) -> Interval:
    """The interval over the instances of one seed, which says nothing of other training runs."""
    found = skewed_mean(values, level, within=within, of="instances")
    return replace(found, question=LIKE_THESE) if found.known else found


def p_value_over_instances(values: Sequence[float]) -> float:
    """The two-sided p-value of a mean of 0 over the instances of one seed."""
    found = np.asarray(values, dtype=float)
    known = len(found) > 1 and not np.isnan(found).any() and over_instances(values, 0.5).known
    return SkewedMean.of(found).p_value() if known else math.nan


def of_instances(
    values: Sequence[Sequence[float]], level: float, within: Range = ANYWHERE
) -> Interval:
    """The mean of values [S, I]: over the S seeds, of one seed `over_instances`."""
    if len(values) == 1:
        return over_instances(values[0], level, within)
    return over_seeds([float(np.mean(of_seed)) for of_seed in values], level, within)


def of_means(means: Sequence[Mean], level: float, within: Range = ANYWHERE) -> Interval:
    """The interval over the means of several seeds; of one seed, its own over instances."""
    if len(means) > 1:
        return over_seeds(floats([value for value, *_ in means]), level, within)
    value, low, high = floats(means[0])
    if not low <= high:
        return Interval(value, low, high, level, "no interval over instances")
    ends_within = within.clamped(low), within.clamped(high)
    return Interval(value, *ends_within, level, question=LIKE_THESE)


def floats(values: Sequence[float | None]) -> list[float]:
    """Numbers of a record; None is undefined, NaN."""
    return [float("nan") if value is None else float(value) for value in values]


def _kept(values: Array, within: Range) -> Range:
    """The range, unless it was declared wrongly: some value is beyond it, and not by rounding."""
    known = values[~np.isnan(values)]
    slack = 1e-6 * max(1.0, float(np.abs(known).max(initial=0.0)))
    return within if Range(within.low - slack, within.high + slack).holds(known) else ANYWHERE


def _error(values: Array) -> Array:
    """The standard error of the means of values [S, ...]."""
    error: Array = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return error


def _logit_ends(values: Array, point: float, within: Range) -> Array:
    span = within.high - within.low
    share = np.clip((values.mean(axis=0) - within.low) / span, 0, 1)
    half = point * _error(values) / span / (share * (1 - share))
    found: Array = within.low + span * scipy.special.expit(scipy.special.logit(share) + _both(half))
    return found


def _log_normal_ends(values: Array, point: float) -> Array:
    """The ends of the means of values [S, ...] that are at least 0.

    The spread of their logarithms is told by those that make the mean: one near 0 would otherwise
    open the interval to the other side.
    """
    logs = np.log(np.maximum(values, _LEAST_SHARE * values.mean(axis=0)))
    variance = logs.var(axis=0, ddof=1)
    half = point * np.sqrt(variance / len(logs) + variance**2 / (2 * (len(logs) - 1)))
    found: Array = np.exp(logs.mean(axis=0) + variance / 2 + _both(half))
    return found


def _both(half: Any) -> Array:
    return np.stack([-half, half])


def _point(seeds: int, level: float) -> float:
    return float(scipy.special.stdtrit(seeds - 1, (1 + level) / 2))
