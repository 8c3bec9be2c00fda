"""The axes of a sweep: whether the relative variance rises or falls along it, and how surely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from maxk_lab.report.document import compact
from maxk_lab.report.naming import short_names, spelled
from maxk_lab.report.rows import grouped
from maxk_lab.statistics.errors import THESE
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.row.model import DISTANCE, GradientRow
from maxk_lab.studies.gradient.section.words import Words, here, is_number, method

_LEAST = 3
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
    # At this level, all steps of all series and all their ends are compared at once, in pairs or
    # by two intervals.
    level = 1 - alpha / (2 * sum(map(len, series)))
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
    if not parts:
        any_of = f" in any{many}" if several else ""
        return f"{along} is not told to rise or to fall{any_of}."
    example = series[way.index(next(one for one, _ in ways.most_common() if one))]
    low, high = (example[i].intervals[measure] for i in (0, -1))
    told = f"{along} {', and '.join(parts)}"
    if local:
        some = "" if local == sum(map(bool, way)) else f"in {local} of these "
        told += f", {some}on the measured instances alone"
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

    And whether that is about the measured instances alone.
    """
    steps = [_step(one, other, axis, measure, level) for one, other in pairwise(members)]
    signs = {sign for sign, _ in steps}
    if len(signs) == 1 and 0 not in signs:
        return {1: "rises", -1: "falls"}[signs.pop()], any(local for _, local in steps)
    ends, local = _step(members[0], members[-1], axis, measure, level)
    return {1: "rises at the ends", -1: "falls at the ends", 0: ""}[ends], local


def _step(
    one: GradientRow, other: GradientRow, axis: _Axis, measure: str, level: float
) -> tuple[int, bool]:
    """The side on which the second row lies clear of the first, 0 where it does not.

    And whether that is about these instances, because too few of them carry a mean.
    """
    assert one.units is not None
    assert other.units is not None
    if axis.paired and not MEASURES.get(measure).of_units:
        # Unbiased, and of the same gradient whoever drew the trajectories.
        logs = log_ratio(other.units, one.units, measure=measure, level=level, same_mean=True)
        return (logs.low > 0) - (logs.high < 0) if logs.known else 0, logs.question == THESE
    units = one.units, other.units
    before, after = (interval(each, measure, level=level) for each in units)
    if before.question != after.question:
        before, after = (interval(each, measure, level=level, question=THESE) for each in units)
    if not (before.known and after.known):
        return 0, False
    return (after.low > before.high) - (after.high < before.low), before.question == THESE
