"""Intervals of gradient measures: a stratified bootstrap over resampling units.

A unit is one problem instance (or, when instances are few, one disjoint block of an instance's
pool); a stratum is what is held fixed: a seed, that is, one frozen policy (or one instance, for
blocks). All measures are ratios of means over units, each stratum weighing the same. The bootstrap
is SciPy's BCa (Efron 1987), resampling units within strata, at a level widened for few units.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from maxk_lab.catalogue import load
from maxk_lab.statistics.measures import MEASURES, MeasureRow
from maxk_lab.statistics.units import FIELDS, Array, Units

RESAMPLES = 2000
# A norm that is divided by must be told from zero at this level, whatever that of the interval.
DEFINED_LEVEL = 0.95

# A norm that a measure divides by → why it is undefined where that cannot be told from zero.
_NORMS = {
    "truth": "the norm of the gradient it is judged against cannot be told from zero",
    "mean_square": "the norm of the mean estimate cannot be told from zero",
}


@dataclass(frozen=True)
class Interval:
    """A point estimate with its two-sided interval; NaN has a reason, `high` may be infinite."""

    value: float
    low: float
    high: float
    level: float
    reason: str = ""

    @property
    def width(self) -> float:
        """High minus low."""
        return self.high - self.low

    @property
    def known(self) -> bool:
        """Whether the value may be printed: it and its ends are there (an end may be infinite)."""
        return not any(map(math.isnan, (self.value, self.low, self.high)))

    def mapped(self, increasing: Callable[[float], float]) -> Interval:
        """The interval of an increasing function of the value."""
        value, low, high = map(increasing, (self.value, self.low, self.high))
        return Interval(value, low, high, self.level, self.reason)

    def columns(self, name: str) -> dict[str, float | None]:
        """Return value and ends under `name`, `name_low`, `name_high`; all None unless `known`."""
        ends = {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}
        return {end: value if self.known else None for end, value in ends.items()}


def undefined(level: float, reason: str) -> Interval:
    """An interval that does not exist, with the reason."""
    return Interval(float("nan"), float("nan"), float("nan"), level, reason)


def stratified_mean(columns: Array, members: Sequence[NDArray[np.int64]]) -> Array:
    """Mean over the units of each stratum, then over strata: [F, U] → [F]."""
    means: Array = np.mean([columns[:, m].mean(axis=-1) for m in members], axis=0)
    return means


def defined_members(values: Array, members: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """The units of each stratum whose value is not NaN; empty where a stratum has none of them."""
    kept = [m[~np.isnan(values[m])] for m in members]
    return kept if all(len(m) for m in kept) else []


def widened_point(level: float, members: Sequence[NDArray[np.int64]]) -> float:
    """The normal point at which a bootstrap of few units has to be read to cover `level`.

    Resampling u units understates a mean's spread by √((u − 1)/u) and ignores that the spread is
    itself estimated; reading the bootstrap at √(u/(u − 1)) · t instead of z mends both (Hesterberg
    2015, "What teachers should know about the bootstrap").
    """
    per_stratum = min(len(m) for m in members)
    freedom = sum(len(m) for m in members) - len(members)
    return float(np.sqrt(per_stratum / (per_stratum - 1)) * stats.t.isf((1 - level) / 2, freedom))


def bootstrap(
    columns: Array,
    members: Sequence[NDArray[np.int64]],
    statistic: Callable[[Array], Array],
    *,
    level: float,
    seed: int,
) -> Interval:
    """BCa interval of `statistic(means [F, ...])` over units resampled within strata.

    Its ends are NaN, with the reason, where a stratum has one unit.
    """
    value = float(statistic(stratified_mean(columns, members)))
    if min(len(m) for m in members) < 2:
        return Interval(
            value,
            float("nan"),
            float("nan"),
            level,
            "one resampling unit in a stratum: no interval",
        )
    if all(np.ptp(columns[:, m], axis=-1).max() == 0 for m in members):
        return Interval(value, value, value, level)

    point = widened_point(level, members)
    nominal = float(1 - 2 * stats.norm.sf(point))
    readable = RESAMPLES * (1 - nominal) >= 10

    def of_indices(*indices: NDArray[np.int64], axis: int = -1) -> Array:
        means: Array = np.mean([columns[:, index].mean(axis=axis) for index in indices], axis=0)
        return statistic(means)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        result = stats.bootstrap(
            tuple(members),
            of_indices,
            n_resamples=RESAMPLES,
            confidence_level=nominal if readable else level,
            method="BCa",
            vectorized=True,
            rng=np.random.default_rng(seed),
        )
    found = result.confidence_interval
    if not readable and np.isfinite(result.standard_error):
        # Too few resamples lie so far out: read its standard error and the same normal point.
        reach = point * float(result.standard_error)
        return Interval(value, value - reach, value + reach, level)
    if not (np.isfinite(found.low) and np.isfinite(found.high)):
        # A statistic may not move between resamples: the scale of the stand-in against itself.
        spread = of_indices(*(np.random.default_rng(seed).choice(m, (50, len(m))) for m in members))
        if np.allclose(spread, value, rtol=1e-12, atol=0):
            return Interval(value, value, value, level)
        return Interval(
            value, float("nan"), float("nan"), level, "the bootstrap distribution is degenerate"
        )
    return Interval(value, float(found.low), float(found.high), level)


@cache
def of_moments(name: str) -> Callable[[Array], Array]:
    """Return the function from the unit columns' means [F, ...] to a moment or measure of them."""
    if name in FIELDS:
        return itemgetter(FIELDS.index(name))
    function = load(MEASURES.get(name).implementation)
    return lambda means: function(*means)


def interval(units: Units, measure: str, *, level: float = 0.95, seed: int = 0) -> Interval:
    """The stratified bootstrap interval of a measure; NaN with a reason where it is undefined.

    An inverse, as `relative_variance` is of `snr`, is taken endpoint by endpoint: its upper end is
    infinite when the signal cannot be told from zero. Others are undefined when a norm that they
    divide by cannot be told from zero.
    """
    row = MEASURES.get(measure)
    if row.of_units:
        return _of_units(units, row, level=level, seed=seed)
    columns, members = units.columns(), units.members()
    if np.isnan(columns[:2]).any():
        return undefined(level, "the second moments were not measured")
    if np.isnan(columns[2:]).any():
        if row.judged:
            return undefined(level, "no gradient to judge against")
        columns = np.nan_to_num(columns)

    if measure == "squared_bias" and units.squared_bias is not None:
        return bootstrap(
            units.squared_bias[np.newaxis], members, lambda m: m[0], level=level, seed=seed
        )

    def positive(name: str) -> bool:
        norm = of_moments(name)
        if units.tolerance is not None:  # known exactly, however few the units
            return bool(norm(stratified_mean(columns, members)) > 0)
        return bootstrap(columns, members, norm, level=DEFINED_LEVEL, seed=seed).low > 0

    if row.inverse_of:
        return _inverse(
            bootstrap(columns, members, of_moments(row.inverse_of), level=level, seed=seed)
        )
    for name in row.divides_by:
        if name in _NORMS and not positive(name):
            return undefined(level, _NORMS[name])
    return bootstrap(columns, members, of_moments(measure), level=level, seed=seed)


def _of_units(units: Units, row: MeasureRow, *, level: float, seed: int) -> Interval:
    """The mean of a measure over the units that have it."""
    if row.name not in units.measures:
        return undefined(level, "not measured")
    values = units.measures[row.name]
    members = defined_members(values, units.members())
    if not members:
        return undefined(level, "undefined on every resampling unit of a stratum")
    if row.rate and units.groups and np.ptp(values) == 0 and values[0] in (0, 1):
        return _same_everywhere(int(values[0]), units.groups, level)
    return bootstrap(values[np.newaxis], members, lambda means: means[0], level=level, seed=seed)


def _same_everywhere(rate: int, groups: int, level: float) -> Interval:
    """Return the exact binomial interval of a rate that was 0 (or 1) in all groups."""
    ends = stats.binomtest(rate * groups, groups).proportion_ci(level, method="exact")
    return Interval(float(rate), float(ends.low), float(ends.high), level)


def _inverse(snr: Interval) -> Interval:
    if not snr.value > 0:
        return undefined(snr.level, "the mean gradient cannot be told from zero")
    return Interval(
        1 / snr.value,
        1 / snr.high if snr.high > 0 else float("nan"),
        float("inf") if snr.low <= 0 else 1 / snr.low,
        snr.level,
        snr.reason,
    )
