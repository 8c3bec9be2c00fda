"""Intervals of gradient measures: the question that each answers, and when it is undefined.

A measure is a ratio of means over instances. Its interval holds the values that a test does not
reject (Fieller 1954). The t statistic of (numerator − value × denominator) is corrected for
skewness. The interval is about new instances if enough instances carry the mean, else about the
measured instances.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import chdtri

from maxk_lab.statistics.estimates import EXACT as EXACT
from maxk_lab.statistics.estimates import (
    NO_ERROR,
    Array,
    Estimate,
    Sample,
    Spread,
    Stratum,
    Tangent,
    clopper_pearson,
    effective_number,
    instance_estimate,
    ratio,
    reach_of_t,
    stratified_mean,
    stratum_weights,
)
from maxk_lab.statistics.estimates import Interval as Interval
from maxk_lab.statistics.estimates import exactly as exactly
from maxk_lab.statistics.estimates import undefined as undefined
from maxk_lab.statistics.measures import (
    FIXED,
    LEAST_SAMPLE,
    MEASURES,
    NEW,
    MeasureRow,
    Question,
)
from maxk_lab.statistics.moments import Function, quotient_of, tangent
from maxk_lab.statistics.units import FIELDS, Units

# A divisor must be significantly above zero at this level, for any level of the interval.
DEFINED_LEVEL = 0.95
# Tuned: the least share of instances that must carry a mean. For means of 16 log-normal(1.5)
# values, this withholds 14 % and covers 93 % of the rest; 0.3 withholds 40 % and covers 90 %.
LEAST_SHARE = 1 / 5
# Tuned: U exp(−variance of logarithms) is the effective number of log-normal values. Of means of 16
# log-normal(1.5) values, 6 % are shown and wrong without this rule, 3 % with it.
LEAST_EXPECTED = 2.5
# Tuned: the end of the variance's interval, because values without their tail spread less. At the
# estimate, 6 % of the same means are shown and wrong.
CONFIDENCE = 0.9
# Tuned: ratios whose logarithms vary less hold for other instances, too. The ratio of `centred` to
# `subloo` is then shown in 51 % to 71 % of reports with heavy tails, and covered in 85 % to 92 %.
ALIKE = 0.1
# The degrees of freedom if only a standard error was recorded: a record keeps 8 blocks.
MOST_FREEDOM = 7
# The reason why a measure is undefined, by the norm in its denominator that may be zero.
_NORMS = {
    "truth": "the norm of the reference gradient is not significantly above zero",
    "mean_square": "the norm of the mean estimate is not significantly above zero",
}


def interval(
    units: Units, measure: str, *, level: float = 0.95, question: Question | None = None
) -> Interval:
    """Return the interval of a measure; NaN with a reason if it is undefined.

    It answers the `question` of the measure's row unless another question is passed. If too few
    instances carry the mean for a statement about new instances, the interval is about the measured
    instances, and `reason` says so. An upper end is infinite if the divisor is not significantly
    above zero.
    """
    row = MEASURES.get(measure)
    about = question or row.question
    if row.per_unit:
        return _mean_of_units(units, row, about, level)
    columns = units.columns()
    if np.isnan(columns[:2]).any():
        return undefined(level, "the second moments were not measured")
    if np.isnan(columns).any() and row.judged:
        return undefined(level, "no gradient to judge against")
    if measure == "squared_bias" and units.squared_bias is not None:
        return _exactly(units.squared_bias, units.stratum, level)
    for name in row.divides_by:
        if name in _NORMS and not norm_is_known(units, name):
            return undefined(level, _NORMS[name])
    if row.inverse_of:
        return _inverse(interval(units, row.inverse_of, level=level, question=about))
    answer = quotient(units.sample, quotient_of(row), about, level)
    return answer.mapped(row.range.clamped) if answer.defined else answer


def quotient(
    sample: Sample, functions: tuple[Function, Function], about: Question, level: float
) -> Interval:
    """The quotient of two functions of the means of a sample, with an interval about `about`.

    If new instances are impossible, the interval is about the measured instances, with the reason.
    """
    means = stratified_mean(sample.values, sample.stratum)
    top, bottom = (tangent(function, means) for function in functions)
    reason = too_few_for(sample, top, bottom) if about == NEW else ""
    fixed = about == FIXED or bool(reason)
    answer = ratio(sample.fixed if fixed else sample.new, top, bottom, level)
    if math.isnan(answer.value):
        return answer
    return replace(answer, reason=both_reasons(reason, answer.reason))


def both_reasons(*reasons: str) -> str:
    """Return the reasons that are not empty, in one line."""
    return "; ".join(filter(None, reasons))


def norm_is_known(units: Units, name: str = "truth") -> bool:
    """Whether a squared norm, a moment summed over the instances, is significantly above zero."""
    at = np.eye(len(FIELDS))[FIELDS.index(name)]
    spread = units.sample.fixed.spread(at)
    if spread.mean <= 0:
        return False
    if math.isnan(spread.error):
        spread = units.sample.new.spread(at)
    return bool(spread.ends(DEFINED_LEVEL)[0] > 0)


def _inverse(of: Interval) -> Interval:
    """1 over a ratio with positive numerator; the upper end is infinite if the ratio reaches 0."""
    if not of.value > 0:
        return undefined(of.level, "the estimated variance is not positive")
    low, high = (1 / end if end > 0 else math.inf for end in (of.high, of.low))
    return replace(of, value=1 / of.value, low=low, high=high)


def too_few_for(sample: Sample, *functions: Tangent) -> str:
    """Return why means of these instances do not hold for new instances; empty if they do.

    `functions` return the means that enough instances must carry.
    """
    stratum = sample.stratum
    if reason := _too_few(stratum):
        return reason
    sides = [
        sample.combination(function.slopes) for function in functions if np.any(function.slopes)
    ]
    fewest = float(np.min([effective_number(*side) for side in sides]))
    reason = _not_carried(fewest, len(stratum))
    if reason or (len(sides) == 2 and _alike(sides[0][0], sides[1][0])):
        return reason
    return next(filter(None, (_tail_may_be_missing(*side, stratum) for side in sides)), "")


def _too_few(stratum: Stratum) -> str:
    if np.bincount(stratum).min() < 2 or len(stratum) < LEAST_SAMPLE:
        few = "1 instance is" if len(stratum) == 1 else f"{len(stratum)} instances are"
        return f"{few} too few to speak of others"
    return ""


def _not_carried(number: float, count: int) -> str:
    if number >= LEAST_SHARE * count:
        return ""
    if math.isnan(number):
        return "the mean over instances is not positive"
    return f"{number:.1f} of {count} instances carry the mean"


def _alike(of_a: Array, of_b: Array) -> bool:
    """Whether the ratio of two numbers is nearly equal on all instances, so also on new ones."""
    positive = (of_a > 0) & (of_b > 0)
    return bool(np.var(np.log(of_a[positive] / of_b[positive])) < ALIKE)


def _tail_may_be_missing(values: Array, noise: Array, stratum: Stratum) -> str:
    """Return why instances outside the sample may dominate the mean of values [U]; else empty.

    `noise` [U] is the variance of the values' errors, which spread the logarithms, too.
    """
    distances, positive = np.zeros(len(values)), values > 0
    for label in range(stratum.max() + 1):
        logs = np.log(values[members := positive & (stratum == label)])
        distances[members] = logs - np.median(logs) if len(logs) else 0.0
    # Only the upper half: values next to 0 carry no information about the largest.
    above, half = distances > 0, max(1, int(positive.sum()) // 2)
    noises = np.minimum(noise[above] / values[above] ** 2, 1.0)
    variance = max(float((distances[above] ** 2).sum() - noises.sum()) / half, 0.0)
    most = variance * half / chdtri(half, CONFIDENCE)
    if len(values) * math.exp(-most) >= LEAST_EXPECTED:
        return ""
    spread = f"standard deviation of logarithms {math.sqrt(variance):.1f}"
    return f"the larger instances differ so much ({spread}) that still larger ones may be missing"


def _mean_of_units(units: Units, row: MeasureRow, about: Question, level: float) -> Interval:
    """Return the mean of a measure over the units that have it."""
    if row.name not in units.measures:
        return undefined(level, "not measured")
    errors = units.errors.get(row.name, np.full(len(units.m2), np.nan))
    valued = ~np.isnan(units.measures[row.name])
    (values,), stratum = units.defined(row.name)
    if not len(values):
        return undefined(level, "undefined on every resampling unit of a stratum")
    if row.rate and units.groups and valued.all() and np.ptp(values) == 0 and values[0] in (0, 1):
        low, high = clopper_pearson(values[0] * units.groups, units.groups, level)
        return Interval(float(values[0]), low, high, level, question=FIXED)
    if units.tolerance is not None and about == FIXED:
        return _exactly(values, stratum, level)
    reason = ""
    if about == NEW:
        reason = _too_few(stratum)
        if not reason and row.range.low >= 0:
            reason = _not_carried(effective_number(values), len(values))
            if not reason and not row.range.bounded:
                reason = _tail_may_be_missing(values, np.zeros_like(values), stratum)
        if reason and units.tolerance is not None:
            return replace(_exactly(values, stratum, level), reason=reason)
    if about == FIXED or reason:
        parts = (stratum_weights(stratum) * errors[valued])[np.newaxis, :, np.newaxis]
        freedom = MOST_FREEDOM if units.within is None else units.within.shape[2] - 1
        mean = stratified_mean(values[np.newaxis], stratum)
        estimate = Estimate(mean, parts, np.zeros(len(values)), freedom, FIXED)
    else:
        estimate = instance_estimate(values[np.newaxis], stratum)
    answer = _spread_interval(estimate.spread(np.ones(1)), row, level)
    return replace(answer, question=estimate.question, reason=both_reasons(reason, answer.reason))


def _spread_interval(spread: Spread, row: MeasureRow, level: float) -> Interval:
    """The interval of a mean; the interval of a rate is on the logit scale, inside (0, 1)."""
    low, high = spread.ends(level)
    if math.isnan(low):
        return undefined(level, NO_ERROR, spread.mean)
    if row.rate and 0 < spread.mean < 1 and spread.error > 0:
        centre = math.log(spread.mean / (1 - spread.mean))
        reach = reach_of_t(spread.freedom, (1 - level) / 2) * spread.error
        reach /= spread.mean * (1 - spread.mean)
        low, high = (1 / (1 + math.exp(-(centre + side * reach))) for side in (-1, 1))
        # With an error of rounding alone, the mean may lie outside the interval.
        low, high = min(low, spread.mean), max(high, spread.mean)
    return Interval(spread.mean, low, high, level).mapped(row.range.clamped)


def _exactly(values: Array, stratum: Stratum, level: float) -> Interval:
    """Return the mean of numbers that are exact on each of the instances."""
    mean = float(stratified_mean(values[np.newaxis], stratum)[0])
    return Interval(mean, mean, mean, level, question=FIXED)
