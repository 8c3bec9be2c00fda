"""The axes of a sweep: whether the relative variance rises or falls along it, and how surely."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from maxk_lab.report.document import compact
from maxk_lab.report.naming import short_names, spelled
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.errors import THESE
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.statistics.typical import typical_ratio, typical_relative_variance
from maxk_lab.studies.gradient.row.model import DISTANCE, GradientRow
from maxk_lab.studies.gradient.section.words import Words, here, is_number, joined, method

_LEAST = 3
# Neither told to rise or to fall, nor could it be: an interval at the corrected level has no end.
_UNCLEAR = "unclear"
_WAYS = {1: "rises", -1: "falls"}
_NAMES = {"relative_variance": "relative variance", "value_variance": "variance of the estimate"}


@dataclass(frozen=True)
class _Axis:
    """Something that a sweep varies by numbers: its name, the value of a row, and the rest.

    `paired`: the instances are the same at every value, so that rows are compared in pairs.
    """

    name: str
    value: Callable[[GradientRow], float]
    rest: Callable[[GradientRow], Hashable]
    paired: bool


def trends(
    rows: Sequence[GradientRow], words: Words, *, alone: bool, alpha: float
) -> Iterator[str]:
    """A sentence for each number that varies: of unbiased rows, since others shrink as they like.

    Where a method stands `alone`, along n, and of the variance of its estimate of the objective.
    """
    told = [row for row in rows if row.catalogued_unbiased and row.units is not None]
    for name in _NAMES if alone else ("relative_variance",):
        measured = [row for row in told if name in row.intervals]
        for axis in _axes(measured, alone):
            if name != "relative_variance" and axis.name != "n":
                continue
            series = [
                sorted(members, key=axis.value)
                for members in grouped(measured, axis.rest).values()
                if len(members) >= _LEAST
            ]
            if series:
                yield _sentence(axis, series, name, words, alpha)


def _axes(rows: Sequence[GradientRow], sizes: bool) -> list[_Axis]:
    short = short_names(list(dict.fromkeys(key for row in rows for key, _ in row.key.setting)))
    by_size = _Axis("n", lambda row: row.key.n, lambda row: _rest(row, n=False), True)
    return [
        *([by_size] if sizes else []),
        *(
            _setting_axis(key, name)
            for key, name in short.items()
            if all(is_number(dict(row.key.setting).get(key)) for row in rows)
        ),
    ]


def _setting_axis(key: str, name: str) -> _Axis:
    return _Axis(
        name,
        lambda row: float(dict(row.key.setting)[key]),
        lambda row: _rest(row, without=key),
        # The trajectories are another policy's, and instances and gradient stay the same.
        key == DISTANCE,
    )


def _rest(row: GradientRow, *, without: str = "", n: bool = True) -> Hashable:
    """All of a row's key but the setting `without`, or its n."""
    key = row.key
    others = tuple(pair for pair in key.setting if pair[0] != without)
    size = key.n if n else None
    return key.environment, others, key.stage, size, key.k, key.estimator, key.baseline


def _sentence(
    axis: _Axis, series: list[list[GradientRow]], measure: str, words: Words, alpha: float
) -> str:
    """The counts of series that rise or fall at every step, and the ends of one of them."""
    # At this level, all steps of all series and their ends, of means and of the typical instance,
    # are compared at once: each by one interval in pairs, or by two intervals.
    each = 1 if _in_pairs(axis, measure) else 2
    level = 1 - alpha / (each * sum(len(members) + 1 for members in series))
    found = [_way(members, axis, measure, level) for members in series]
    way = [word for word, _ in found]
    ways = Counter(way)
    local = sum(bool(word) and alone for word, alone in found)
    first, last = (axis.value(series[0][i]) for i in (0, -1))
    along = f"Along {axis.name}, from {spelled(first)} to {spelled(last)}, the {_NAMES[measure]}"
    several = len(series) > 1
    many = f" of {len(series)} curves (one method at one size each)"
    parts = []
    for word in ("rises", "falls"):
        if count := ways[word]:
            parts.append(f"{word} at every step{f' in {count}{many}' * several}")
    for word in ("rises", "falls"):
        if count := ways[f"{word} at the ends"]:
            of = " more" if parts else many
            parts.append(f"{word} from the first to the last value{f' in {count}{of}' * several}")
    for word in ("rises", "falls"):
        if count := ways[f"{word} typically"]:
            of = " more" if parts else many
            parts.append(
                f"{word} from the first to the last value on the typical instance (the median)"
                f"{f' in {count}{of}' * several}"
            )
    rest = ways[""] + ways[_UNCLEAR]
    if not parts:
        any_of = f" in any{many}" if several else ""
        parts.append(f"is not told to rise or to fall{any_of}")
    elif rest:
        parts.append(f"is not told to do either in {rest}")
    told = f"{along} {joined(parts)}"
    if unclear := ways[_UNCLEAR]:
        of = f", {unclear} of them because there are" if several else ": there are"
        told += f"{of} too few instances to tell at a level that is corrected for all"
    if local:
        some = "" if local == len(series) - rest else f"in {local} of these "
        told += f", {some}on the measured instances alone"
    usual = next((one for one, _ in ways.most_common() if one not in ("", _UNCLEAR)), None)
    example = series[0 if usual is None else way.index(usual)]
    low, high = (example[i].intervals[measure] for i in (0, -1))
    if low.known and high.known:
        told += f"; as from {compact(low)} to {compact(high)}{here(low) or here(high)} for "
        told += _called(example[0], axis, words)
    return f"{told}."


def _called(row: GradientRow, axis: _Axis, words: Words) -> str:
    """The words for a series, by one of its rows."""
    others = words.setting(row.key).split(", ") if row.key.setting else []
    parts = [part for part in others if not part.startswith(f"{axis.name} = ")]
    parts += [f"n = {row.key.n}"] if axis.name != "n" else []
    return ", ".join([method(row, estimator=True), *parts, f"K = {row.key.k}"])


def _way(
    members: Sequence[GradientRow], axis: _Axis, measure: str, level: float
) -> tuple[str, bool]:
    """Whether a series rises or falls at every step, or between its ends; empty where neither.

    Of the means, or else of the typical instance. And whether that is about the measured instances
    alone.
    """
    steps = [_step(one, other, axis, measure, level) for one, other in pairwise(members)]
    signs: set[int | None] = {sign for sign, _ in steps}
    if signs in ({1}, {-1}) and (way := steps[0][0]):
        return _WAYS[way], any(local for _, local in steps)
    first, last = members[0], members[-1]
    ends, local = _step(first, last, axis, measure, level)
    if ends:
        return f"{_WAYS[ends]} at the ends", local
    if typical := _typical(first, last, axis, measure, level):
        return f"{_WAYS[typical]} typically", False
    return _UNCLEAR if ends is None else "", False


def _in_pairs(axis: _Axis, measure: str) -> bool:
    """Whether the rows at two values of an axis are compared in pairs."""
    return axis.paired and not MEASURES.get(measure).of_units


def _typical(one: GradientRow, other: GradientRow, axis: _Axis, measure: str, level: float) -> int:
    """The side on which the second row lies clear of the first on the median instance, or 0."""
    if measure != "relative_variance":
        return 0
    assert one.units is not None
    assert other.units is not None
    if _in_pairs(axis, measure):
        try:
            median = typical_ratio(other.units, one.units, level=level).median
        except ValueError:
            return 0
        return (median.low > 1) - (median.high < 1)
    before, after = (
        typical_relative_variance(units, unbiased=True, level=level)
        for units in (one.units, other.units)
    )
    return (after.low > before.high) - (after.high < before.low)


def _step(
    one: GradientRow, other: GradientRow, axis: _Axis, measure: str, level: float
) -> tuple[int | None, bool]:
    """The side on which the second row lies clear of the first, 0 where it does not.

    None where their interval, at this level, leaves open any size on a side. And whether that is
    about these instances, because too few of them carry a mean.
    """
    assert one.units is not None
    assert other.units is not None
    if _in_pairs(axis, measure):
        # Unbiased, and of the same gradient whoever drew the trajectories.
        logs = log_ratio(other.units, one.units, measure=measure, level=level, same_mean=True)
        side = (logs.low > 0) - (logs.high < 0) if logs.known else 0
        open_ended = not (math.isfinite(logs.low) and math.isfinite(logs.high))
        return side or (None if open_ended else 0), logs.question == THESE
    units = one.units, other.units
    before, after = (interval(each, measure, level=level) for each in units)
    if before.question != after.question:
        before, after = (interval(each, measure, level=level, question=THESE) for each in units)
    if not (before.known and after.known):
        return None, False
    side = (after.low > before.high) - (after.high < before.low)
    open_ended = not (math.isfinite(before.high) and math.isfinite(after.high))
    return side or (None if open_ended else 0), before.question == THESE
