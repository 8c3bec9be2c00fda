"""Intervals of robust statistics of two-level data: seeds, and instances drawn anew within each.

Every seed has a value of the statistic over its own instances, and those of the seeds are i.i.d.:
their mean has the interval of `over_seeds`, but for shares of wins. Of a single seed the intervals
are over its instances, in closed form, and say nothing of other seeds.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from maxk_lab.ranges import ANYWHERE, Range
from maxk_lab.statistics.errors import LIKE_THESE
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds.over_seeds import SEEDS, over_seeds
from maxk_lab.statistics.spread import clopper_pearson
from maxk_lab.statistics.units import Array

# The quantiles that a training study tells, of samples and of instances.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_UNDEFINED = "not defined on every instance of every seed"


def iqm(values: Array) -> Array:
    """The interquartile mean [...] of values [..., N] (Agarwal et al. 2021).

    The lowest and the highest ⌊N/4⌋ values are left out.
    """
    from scipy.stats import trim_mean

    trimmed: Array = trim_mean(values, 0.25, axis=-1)
    return trimmed


def improvement(mine: Array, theirs: Array) -> Array:
    """1 where mine is higher than theirs, 0 where it is lower, ½ where they are equal.

    The mean is P(mine > theirs), ties half.
    """
    wins: Array = 0.5 * (1 + np.sign(mine - theirs))
    return wins


def iqm_interval(values: Array, *, level: float, within: Range = ANYWHERE) -> Interval:
    """The interquartile mean over the instances of a seed, values [S, I], mean over the S seeds.

    Of one seed it is Tukey and McLaughlin's (1963), from the spread of the winsorised values.
    """
    if np.isnan(values).any():
        return undefined(level, _UNDEFINED)
    if len(values) > 1:
        return over_seeds(iqm(values).tolist(), level, within)
    found = np.sort(values[0])
    left_out = len(found) // 4
    kept = len(found) - 2 * left_out
    if kept < 2:
        return undefined(level, "one value: no interval")
    winsorised = np.clip(found, found[left_out], found[-left_out - 1])
    error = winsorised.std(ddof=1) * math.sqrt(len(found)) / kept
    half = float(scipy.special.stdtrit(kept - 1, (1 + level) / 2)) * error
    value = float(iqm(values)[0])
    low, high = within.clamped(value - half), within.clamped(value + half)
    return Interval(value, low, high, level, question=LIKE_THESE)


def quantile_interval(
    values: Array, q: float, *, level: float, within: Range = ANYWHERE
) -> Interval:
    """The quantile q over the instances of a seed, values [S, I], mean over the S seeds.

    Hazen's, which is nearly unbiased in the tails: of 128 skewed values numpy's own p99 is 7 % too
    low. Undefined where a seed has less than one value beyond it. Of one seed the ends are values
    themselves, by the binomial distribution of how many are below; undefined where none is so far
    out.
    """
    if np.isnan(values).any():
        return undefined(level, _UNDEFINED)
    seeds, count = values.shape
    if count * min(q, 1 - q) < 1 - 1e-9:
        return undefined(level, f"p{100 * q:g}: fewer than one of {count} instances is beyond it")
    quantiles = np.quantile(values, q, axis=-1, method="hazen")
    if seeds > 1:
        return over_seeds(quantiles.tolist(), level, within)
    from scipy.stats import quantile_test

    ends = quantile_test(values[0], q=0, p=q).confidence_interval(level)
    if math.isnan(ends.low) or math.isnan(ends.high):
        return undefined(level, f"p{100 * q:g} of {count} instances: too few are beyond it")
    low, high = float(ends.low), float(ends.high)
    return Interval(float(quantiles[0]), low, high, level, question=LIKE_THESE)


def probability_interval(wins: Array, *, level: float) -> Interval:
    """The mean of `wins` [S, I] of `improvement`; the interval is that of a share of so many seeds.

    Shares of seeds vary no more than zeros and ones do: so it covers whatever their distribution,
    also where a rare seed that none of these shows loses most. Of one seed its instances count.
    """
    if np.isnan(wins).any():
        return undefined(level, _UNDEFINED)
    over_instances = len(wins) == 1
    shares = wins[0] if over_instances else wins.mean(axis=-1)
    low, high = clopper_pearson(float(shares.sum()), len(shares), level)
    about = LIKE_THESE if over_instances else SEEDS
    return Interval(float(shares.mean()), low, high, level, question=about)
