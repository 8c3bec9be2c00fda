"""Intervals of gradient measures: which question each answers, and when there is none.

A measure is a ratio of means over instances. Its interval holds the values that a test does not
reject (Fieller 1954), with the skewness of the numerator less the value times the denominator taken
out of the t statistic. It is a statement about instances like these where enough of them carry the
mean, else about these very instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from maxk_lab.statistics.errors import (
    LIKE_THESE,
    MOST_FREEDOM,
    THESE,
    combined,
    effective_number,
    moment_errors,
    of_numbers,
)
from maxk_lab.statistics.measures import MEASURES, MeasureRow, Question
from maxk_lab.statistics.quotients import (
    NO_ERROR,
    Tangent,
    both_reasons,
    quotient,
    ratio_of,
    tangent,
)
from maxk_lab.statistics.spread import Spread, clopper_pearson, reach_of_t
from maxk_lab.statistics.units import FIELDS, Array, Units, defined_members, stratified_mean

# A norm that is divided by must be told from zero at this level, whatever that of the interval.
DEFINED_LEVEL = 0.95
# An interval about instances like these needs so many: the means of 12 log-normal(1.5) values are
# covered in 92 %, those of 16 in 94 %.
LEAST_INSTANCES = 16
# It needs this share of them carrying the mean: of what two of sixteen carry it would be about
# these. A larger share would be worse: samples whose tail is missing look well carried.
LEAST_SHARE = 1 / 5
# And as many log-normal values that spread as these may, U exp(−variance of logarithms), of which
# the upper end counts: without their tail they seem to spread less. See tails.py there. Ratios
# whose logarithms vary less than `ALIKE` are those of other instances, too.
LEAST_EXPECTED, CONFIDENCE, ALIKE = 2.5, 0.9, 0.1

# The question of an interval of a number that no sample goes into.
EXACT = "exact"

# A norm that a measure divides by → why it is undefined where that cannot be told from zero.
_NORMS = {
    "truth": "the norm of the gradient it is judged against cannot be told from zero",
    "mean_square": "the norm of the mean estimate cannot be told from zero",
}


@dataclass(frozen=True)
class Interval:
    """A point estimate with its two-sided interval; NaN has a reason, `high` may be infinite.

    `question` tells what the interval is about: these instances, instances like these, or seeds;
    `EXACT` where nothing is random, empty where the value has its own. A `reason` beside a known
    interval tells why it is not about what was asked for.
    """

    value: float
    low: float
    high: float
    level: float
    reason: str = ""
    question: str = ""

    @property
    def width(self) -> float:
        """High minus low."""
        return self.high - self.low

    @property
    def known(self) -> bool:
        """Whether the value may be printed: it and its ends are there (an end may be infinite)."""
        return not any(map(math.isnan, (self.value, self.low, self.high)))

    @property
    def exact(self) -> bool:
        """Whether nothing is estimated: its ends are the value itself."""
        return self.level == 1.0

    @property
    def fallen_back(self) -> bool:
        """Whether it is about these instances though others were asked about; `reason` says why."""
        return self.known and self.question == THESE and bool(self.reason)

    def mapped(self, increasing: Callable[[float], float]) -> Interval:
        """The interval of an increasing function of the value."""
        value, low, high = map(increasing, (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)

    def columns(self, name: str) -> dict[str, float | None]:
        """Return value and ends under `name`, `name_low`, `name_high`; all None unless `known`."""
        ends = {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}
        return {end: value if self.known else None for end, value in ends.items()}


def undefined(level: float, reason: str) -> Interval:
    """An interval that does not exist, with the reason."""
    return Interval(float("nan"), float("nan"), float("nan"), level, reason)


def exactly(value: float) -> Interval:
    """The interval of a number that is computed, not measured: it ends at the number itself."""
    return Interval(value, value, value, 1.0, question=EXACT)


def interval(
    units: Units, measure: str, *, level: float = 0.95, question: Question | None = None
) -> Interval:
    """The interval of a measure; NaN with a reason where it is undefined.

    It answers the `question` of the measure's row unless another is asked for. Where that is about
    instances like these and too few of them carry the mean, it is about these instances, and
    `reason` says so. An upper end is infinite where what it is divided by cannot be told from zero.
    """
    row = MEASURES.get(measure)
    asked = question or row.question
    if row.of_units:
        return _of_units(units, row, asked, level)
    if np.isnan(units.columns()[:2]).any():
        return undefined(level, "the second moments were not measured")
    if np.isnan(units.columns()[2:]).any():
        if row.judged:
            return undefined(level, "no gradient to judge against")
        units = replace(units, inner=np.nan_to_num(units.inner), truth=np.nan_to_num(units.truth))
    if measure == "squared_bias" and units.squared_bias is not None:
        return _exactly(units.squared_bias, units.members(), level)
    for name in row.divides_by:
        if name in _NORMS and not norm_is_known(units, name):
            return undefined(level, _NORMS[name])
    if row.inverse_of:
        return _inverse(interval(units, row.inverse_of, level=level, question=asked))
    top, bottom = ratio_of(row)
    means = stratified_mean(units.columns(), units.members())
    tangents = tangent(top, means), tangent(bottom, means)
    about, reason = asked, ""
    if asked == LIKE_THESE:
        reason = too_few_for(units.columns(), units.within, units.members(), tangents)
        about = THESE if reason else LIKE_THESE
    found = quotient(moment_errors(units, about), *tangents, level)
    if math.isnan(found.value):
        return undefined(level, found.reason)
    return _bounded(Interval(*found[:3], level, both_reasons(reason, found.reason), about), row)


def _bounded(found: Interval, row: MeasureRow) -> Interval:
    return found.mapped(row.range.clamped) if found.known else found


def norm_is_known(units: Units, name: str = "truth") -> bool:
    """Whether a squared norm, a moment summed over these instances, can be told from zero."""
    errors = moment_errors(units, THESE)
    at = FIELDS.index(name)
    if errors.means[at] <= 0:
        return False
    spread = errors.spread(np.eye(len(FIELDS))[at])
    if math.isnan(spread.error):
        spread = moment_errors(units, LIKE_THESE).spread(np.eye(len(FIELDS))[at])
    return bool(spread.ends(DEFINED_LEVEL)[0] > 0)


def _inverse(found: Interval) -> Interval:
    """1 over a number that is not negative: infinite at the upper end where that reaches 0."""
    if not found.value > 0:
        return undefined(found.level, "the mean gradient cannot be told from zero")
    low, high = (1 / end if end > 0 else math.inf for end in (found.high, found.low))
    return replace(found, value=1 / found.value, low=low, high=high)


def too_few_for(
    columns: Array,
    within: Array | None,
    members: Sequence[NDArray[np.int64]],
    parts: Sequence[Tangent],
) -> str:
    """Why means of these instances say nothing of others; empty where they do.

    columns [F, U] are the numbers of every instance, `within` [F, U, B] how far its blocks lie from
    them, `parts` the functions of the means that are to be carried by enough instances.
    """
    count = columns.shape[1]
    if min(map(len, members)) < 2 or count < LEAST_INSTANCES:
        return f"{count} instances are too few to speak of others"
    sides = [_with_noise(columns, within, part.slopes) for part in parts if np.any(part.slopes)]
    reason = _too_few(float(np.min([effective_number(*side) for side in sides])), count)
    if reason or (len(sides) == 2 and _alike(sides[0][0], sides[1][0])):
        return reason
    return next(filter(None, (_tail_may_be_missing(*side, members) for side in sides)), "")


def _alike(of_a: Array, of_b: Array) -> bool:
    """Whether the ratio of two numbers is nearly the same on all instances: then on others, too."""
    positive = (of_a > 0) & (of_b > 0)
    return bool(np.var(np.log(of_a[positive] / of_b[positive])) < ALIKE)


def carrying_instances(units: Units) -> dict[str, float]:
    """The effective numbers of instances behind the mean variance and the gradient's mean norm.

    The gradient is the one judged against; where there is none, that of the estimates.
    """
    judged = not np.isnan(units.truth).any()
    of = {"variance": (1.0, -1.0, 0.0, 0.0), "gradient": (0.0, 1.0 - judged, 0.0, 1.0 * judged)}
    columns = np.nan_to_num(units.columns())
    return {name: carrying(columns, units.within, np.array(how)) for name, how in of.items()}


def carrying(columns: Array, within: Array | None, of: Array) -> float:
    """The effective number of instances that carry a linear combination of columns [F, U]."""
    return effective_number(*_with_noise(columns, within, of))


def _with_noise(columns: Array, within: Array | None, of: Array) -> tuple[Array, Array]:
    """A linear combination of columns [F, U], and the variance of its own error on each."""
    values = combined(of, columns)
    if within is None:
        return values, np.zeros_like(values)
    by_block = combined(of, within)
    blocks = by_block.shape[1]
    return values, np.nan_to_num((by_block**2).sum(1) / (blocks * (blocks - 1)))


def _too_few(number: float, count: int) -> str:
    if number >= LEAST_SHARE * count:
        return ""
    if math.isnan(number):
        return "the mean over instances is not positive"
    return f"{number:.1f} of {count} instances carry the mean"


def _tail_may_be_missing(values: Array, noise: Array, members: Sequence[NDArray[np.int64]]) -> str:
    """Why the mean of values [U] may be that of instances that are not among these; else empty.

    `noise` [U] is the variance of their own errors, which spread the logarithms, too.
    """
    far = np.zeros(len(values))
    for m in (m[values[m] > 0] for m in members):
        far[m] = np.log(values[m]) - np.median(np.log(values[m])) if len(m) else 0.0
    # The upper half alone: values next to 0 say nothing of the largest.
    above, half = far > 0, max(1, int((values > 0).sum()) // 2)
    own = np.minimum(noise[above] / values[above] ** 2, 1.0)
    variance = max(float((far[above] ** 2).sum() - own.sum()) / half, 0.0)
    most = variance * half / chdtri(half, CONFIDENCE)
    if len(values) * math.exp(-most) >= LEAST_EXPECTED:
        return ""
    spread = f"standard deviation of logarithms {math.sqrt(variance):.1f}"
    return f"the larger instances differ so much ({spread}) that still larger ones may be missing"


def _of_units(units: Units, row: MeasureRow, asked: Question, level: float) -> Interval:
    """The mean of a measure over the units that have it."""
    if row.name not in units.measures:
        return undefined(level, "not measured")
    values = units.measures[row.name]
    members = defined_members(values, units.members())
    if not members:
        return undefined(level, "undefined on every resampling unit of a stratum")
    if row.rate and units.groups and np.ptp(values) == 0 and values[0] in (0, 1):
        low, high = clopper_pearson(values[0] * units.groups, units.groups, level)
        return Interval(float(values[0]), low, high, level, question=THESE)
    if units.tolerance is not None and asked == THESE:
        return _exactly(values, members, level)
    reason = ""
    if asked == LIKE_THESE:
        kept = np.concatenate(members)
        if min(map(len, members)) < 2 or len(kept) < LEAST_INSTANCES:
            reason = f"{len(kept)} instances are too few to speak of others"
        elif row.range.low >= 0:
            reason = _too_few(effective_number(values[kept]), len(kept))
            if not reason and not row.range.bounded:
                reason = _tail_may_be_missing(values, np.zeros_like(values), members)
        if reason and units.tolerance is not None:
            return replace(_exactly(values, members, level), reason=reason)
    about: Question = THESE if reason or asked == THESE else LIKE_THESE
    freedom = MOST_FREEDOM if units.within is None else units.within.shape[2] - 1
    spread = of_numbers(values, units.errors.get(row.name), members, about, freedom)
    found = _of_spread(spread, row, level)
    return replace(found, question=about, reason=both_reasons(reason, found.reason))


def _of_spread(spread: Spread, row: MeasureRow, level: float) -> Interval:
    """The interval of a mean; that of a rate on the logit scale, which keeps it in (0, 1)."""
    low, high = spread.ends(level)
    if row.rate and 0 < spread.mean < 1 and spread.error > 0:
        centre = math.log(spread.mean / (1 - spread.mean))
        reach = reach_of_t(spread.freedom, (1 - level) / 2) * spread.error
        reach /= spread.mean * (1 - spread.mean)
        low, high = (1 / (1 + math.exp(-(centre + side * reach))) for side in (-1, 1))
        # Of an error of rounding alone, rounding can put the mean beyond them.
        low, high = min(low, spread.mean), max(high, spread.mean)
    reason = NO_ERROR if math.isnan(low) else ""
    return _bounded(Interval(spread.mean, low, high, level, reason), row)


def _exactly(values: Array, members: Sequence[NDArray[np.int64]], level: float) -> Interval:
    """The mean of numbers that are known exactly on each of these instances."""
    mean = float(stratified_mean(values[np.newaxis], members)[0])
    return Interval(mean, mean, mean, level, question=THESE)
