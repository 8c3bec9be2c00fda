"""Paired comparisons: intervals of the logarithm of one cell's measure over another's."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import NDArray

from maxk_lab.statistics.errors import (
    LIKE_THESE,
    THESE,
    Errors,
    one_behind_the_other,
    over_blocks,
    over_instances,
)
from maxk_lab.statistics.intervals import Interval, too_few_for, undefined
from maxk_lab.statistics.measures import MEASURES, MeasureRow, Question
from maxk_lab.statistics.quotients import (
    Quotient,
    Tangent,
    both_reasons,
    quotient,
    ratio_of,
    tangent,
)
from maxk_lab.statistics.strata import Strata
from maxk_lab.statistics.units import FIELDS, Array, Units, defined_members, stratified_mean

# By simulation: at 1 a star is on the wrong side in 4 % where ratios have a log-sd of 1, at 1.6 in
# at most 2.5 %, and of 16 instances of mild spread half the variance has one in 45 %.
MISSING = 1.6
UNPAIRED = "one was enumerated and one sampled: no paired comparison"
# With it a star is wrong in at most 2.5 % up to a log-sd of 2; of 2 × 16 instances 13 % without.
TAIL = 0.995

# Measures of estimators with one mean whose ratio is that of their variances, or its inverse.
_BY_VARIANCE = {"relative_variance": "variance", "snr": "variance"}


def log_ratio(
    a: Units,
    b: Units,
    *,
    measure: str = "variance",
    level: float = 0.95,
    same_mean: bool = False,
    question: Question | None = None,
) -> Interval:
    """Paired interval of log(measure of a / measure of b), both from the same instances and pools.

    `same_mean` is for two estimators of the same gradient, both proven unbiased: their relative
    variances are then as their variances, and no weak signal is divided by. NaN with a reason where
    the two have different units, as when the groups of one were enumerated and those of the other
    sampled.
    """
    if not np.array_equal(a.stratum, b.stratum):
        return undefined(level, "the two rest on different instances: no paired comparison")
    if (a.tolerance is None) != (b.tolerance is None):
        return undefined(level, UNPAIRED)
    if same_mean and measure in _BY_VARIANCE:
        logs = log_ratio(a, b, level=level, question=question)
        return _negative(logs) if measure == "snr" else logs
    row = MEASURES.get(measure)
    asked = question or row.question
    if row.of_units or (measure == "squared_bias" and a.squared_bias is not None):
        return _of_numbers(a, b, row, asked, level)
    columns = np.concatenate([a.columns(), b.columns()])
    if np.isnan(columns[[0, 1, 4, 5]]).any():
        return undefined(level, "the second moments were not measured")
    if row.judged and np.isnan(columns).any():
        return undefined(level, "no gradient to judge against")
    columns = np.nan_to_num(columns)
    if row.inverse_of:
        return _negative(log_ratio(a, b, measure=row.inverse_of, level=level, question=asked))
    means = stratified_mean(columns, a.members())
    tangents = _tangents(row, means)
    about, reason = asked, ""
    if asked == LIKE_THESE:
        reason = too_few_for(columns, _within(a, b), a.members(), tangents)
        about = THESE if reason else LIKE_THESE
    found = quotient(_errors(a, b, columns, about), *tangents, level)
    if not found.value > 0:
        return undefined(level, f"{measure} of one side is not positive")
    if about == THESE and math.isnan(found.low) and _cut_differently(a, b):
        found = found._replace(reason="their groups are in different blocks: no pairs of these")
    return _in_logs(found, level, about, reason)


def stays_less(a: Units, b: Units) -> bool:
    """Whether the mean variance of a is less, even if a kind of instance were missing.

    With one more instance, on which a has more by `MISSING` times the largest difference of any,
    Student's 95 % interval of the mean difference must still lie below 0. And so must the logarithm
    of the mean of log-normal ratios that spread as these do (Cox's interval, Land 1972), one-sided
    at `TAIL`. Where the ratio differs much between instances, a sample that lacks the tail of the
    ratios tells the wrong one apart without these.
    """
    of_a, of_b = a.m2 - a.mean_square, b.m2 - b.mean_square
    differences = of_a - of_b
    if np.isnan(differences).any() or not _mean_ratio_is_less(of_a, of_b, a.stratum):
        return False
    farthest = int(np.argmax(np.abs(differences)))
    values = np.append(differences, MISSING * abs(differences[farthest]))
    stratum = np.append(a.stratum, a.stratum[farthest])
    errors = over_instances(values[np.newaxis], Strata.of_labels(stratum))
    spread = errors.spread(np.ones(1))
    return bool(spread.mean + scipy.special.stdtrit(errors.freedom, 0.975) * spread.error < 0)


def _mean_ratio_is_less(of_a: Array, of_b: Array, stratum: NDArray[np.int64]) -> bool:
    positive = (of_a > 0) & (of_b > 0)
    logs = np.log(of_a[positive] / of_b[positive])
    strata = Strata.of_labels(stratum[positive])
    freedom = len(logs) - len(strata)
    if freedom < 1:
        return True
    mean = float(np.mean(strata.means(logs[np.newaxis])))
    variance = float((strata.centred(logs[np.newaxis]) ** 2).sum()) / freedom
    error = math.sqrt(variance / len(logs) + variance**2 / (2 * freedom))
    return bool(mean + variance / 2 + scipy.special.stdtrit(freedom, TAIL) * error < 0)


def _tangents(row: MeasureRow, means: Array) -> tuple[Tangent, Tangent]:
    """The tangents of a's top times b's bottom, and of a's bottom times b's top."""
    top, bottom = ratio_of(row)
    return (
        tangent(lambda both: top(both[:4]) * bottom(both[4:]), means),
        tangent(lambda both: bottom(both[:4]) * top(both[4:]), means),
    )


def _cut_differently(a: Units, b: Units) -> bool:
    return a.within is not None and b.within is not None and a.within.shape != b.within.shape


def _within(a: Units, b: Units) -> Array | None:
    if a.within is None or b.within is None or _cut_differently(a, b):
        return None
    both: Array = np.concatenate([a.within, b.within])
    return both


def _errors(a: Units, b: Units, columns: Array, about: Question) -> Errors:
    if about == LIKE_THESE:
        return over_instances(columns, a.members())
    within = _within(a, b)
    if within is None:
        unknown = 0.0 if a.tolerance is not None else math.nan
        within = np.full((2 * len(FIELDS), len(a.m2), 2), unknown)
    return over_blocks(columns, within, a.members())


def _of_numbers(a: Units, b: Units, row: MeasureRow, asked: Question, level: float) -> Interval:
    """The log ratio of numbers that every instance has of its own, over those that have both."""
    if row.of_units:
        if row.name not in a.measures or row.name not in b.measures:
            return undefined(level, "not measured")
        columns = np.stack([a.measures[row.name], b.measures[row.name]])
    else:
        assert a.squared_bias is not None
        assert b.squared_bias is not None
        # From the moments, what is much smaller than them would be lost to rounding.
        columns = np.stack([a.squared_bias, b.squared_bias])
    members = defined_members(columns.sum(0), a.members())
    if not members:
        return undefined(level, "undefined on every instance of a seed")
    means = stratified_mean(columns, members)
    if not (means > 0).all():
        return undefined(level, f"{row.name} of one side is not positive")
    kept, places = one_behind_the_other(members)
    columns = columns[:, kept]
    tangents = tangent(lambda both: both[0], means), tangent(lambda both: both[1], means)
    reason = too_few_for(columns, None, places, tangents) if asked == LIKE_THESE else ""
    if asked == LIKE_THESE and not reason:
        found = quotient(over_instances(columns, places), *tangents, level)
        return _in_logs(found, level, LIKE_THESE)
    value = math.log(means[0] / means[1])
    if a.tolerance is not None:
        return Interval(value, value, value, level, reason=reason, question=THESE)
    return undefined(level, reason or "its error on these instances was not kept for pairs")


def _in_logs(found: Quotient, level: float, about: Question, reason: str = "") -> Interval:
    value, low, high = map(_log, found[:3])
    return Interval(value, low, high, level, both_reasons(reason, found.reason), about)


def _log(value: float) -> float:
    if math.isnan(value):
        return value
    return math.log(value) if value > 0 else -math.inf


def _negative(found: Interval) -> Interval:
    return replace(found, value=-found.value, low=-found.high, high=-found.low)
