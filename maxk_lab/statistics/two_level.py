"""Intervals of robust statistics of two-level data: seeds, and instances drawn anew within each.

A mean over such values has Student's t over the means of the seeds. An interquartile mean or a
quantile of all values has no such means: its standard error is bootstrapped, level by level.
Resampling whole seeds has the spread of both levels, as the instances vary with their seed;
resampling instances within their seeds has the spread of that level alone, below which the error
cannot be. Resampling seeds and then instances at once would count the instances twice, and cover
99 % to 100 % instead of 95 % where the seeds hardly differ (Davison and Hinkley 1997, "Bootstrap
methods and their application", section 3.8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.units import Array

RESAMPLES = 1000
# The quantiles that a training study tells, of samples and of instances.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
# How many values must lie beyond a quantile: with fewer, resampling says nothing of its tail.
BEYOND = 5

Statistic = Callable[[Array], Any]


def iqm(values: Array) -> Array:
    """The interquartile mean [...] of values [..., N] (Agarwal et al. 2021).

    The lowest and the highest ⌊N/4⌋ values are left out.
    """
    found: Array = np.asarray(stats.trim_mean(values, 0.25, axis=-1))
    return found


def improvement(mine: Array, theirs: Array) -> Array:
    """1 where mine is higher than theirs, 0 where it is lower, ½ where they are equal.

    The mean is P(mine > theirs), ties half.
    """
    wins: Array = 0.5 * (1 + np.sign(mine - theirs))
    return wins


def quantile_interval(values: Array, q: float, *, level: float, seed: int = 0) -> Interval:
    """The quantile q of all values [S, I], interpolated linearly.

    Undefined with fewer than `BEYOND` values beyond it. Where seeds differ as much as the instances
    within one, the tail of the values is that of the few outermost seeds, and the interval covers
    less than it says: about 90 % instead of 95 % for q = 0.9 of five such seeds.
    """
    beyond = math.floor(values.size * min(q, 1 - q) + 1e-9)
    if beyond < BEYOND:
        return undefined(level, f"p{100 * q:g} of {values.size} values has only {beyond} beyond it")
    return two_level(values, partial(np.quantile, q=q, axis=-1), level=level, seed=seed)


def probability_interval(wins: Array, *, level: float, seed: int = 0) -> Interval:
    """The mean of `wins` [S, I] of `improvement`.

    Wins that are all 0 or all 1 have the exact binomial interval of that many. It takes the pairs
    as independent: where nothing varies, nothing tells how much the seeds do.
    """
    if wins.size and np.ptp(wins) == 0 and wins.flat[0] in (0, 1):
        ends = stats.binomtest(int(wins.sum()), wins.size).proportion_ci(level, method="exact")
        return Interval(float(wins.flat[0]), float(ends.low), float(ends.high), level)
    found = two_level(wins, partial(np.mean, axis=-1), level=level, seed=seed)
    return Interval(found.value, max(0.0, found.low), min(1.0, found.high), level, found.reason)


def two_level(
    values: Array, statistic: Statistic, *, level: float = 0.95, seed: int = 0
) -> Interval:
    """The interval of a statistic ([..., N] → [...]) of all values [S, I], S seeds of I instances.

    Student's t with S − 1 degrees of freedom times the larger standard error of the two levels,
    each widened for its few units as by `intervals.widened_point`. With one seed it is over its
    instances only, and says nothing of other seeds.
    Undefined, with the reason, where a value is NaN or there is one instance of one seed.
    """
    if np.isnan(values).any():
        return undefined(level, "not defined on every instance of every seed")
    seeds, instances = values.shape
    if seeds * instances < 2:
        return undefined(level, "one value: no interval")
    value = float(statistic(values.reshape(-1)))
    draws = np.random.default_rng(seed)
    within = _widening(instances) * _within(values, statistic, draws) if instances > 1 else 0.0
    if seeds == 1:
        error, freedom = within, instances - 1
    else:
        whole = values[draws.integers(0, seeds, (RESAMPLES, seeds))].reshape(RESAMPLES, -1)
        between = _widening(seeds) * float(np.std(statistic(whole)))
        error, freedom = max(between, within), seeds - 1
    reach = float(stats.t.isf((1 - level) / 2, freedom)) * error
    return Interval(value, value - reach, value + reach, level)


def _within(values: Array, statistic: Statistic, draws: np.random.Generator) -> float:
    """Standard error of the statistic when instances are resampled within their seeds."""
    seeds, instances = values.shape
    chosen: NDArray[np.int64] = draws.integers(0, instances, (RESAMPLES, seeds, instances))
    resampled = values[np.arange(seeds)[:, None], chosen].reshape(RESAMPLES, -1)
    return float(np.std(statistic(resampled)))


def _widening(units: int) -> float:
    """The factor by which a bootstrap of so many units understates a spread."""
    return math.sqrt(units / (units - 1))
