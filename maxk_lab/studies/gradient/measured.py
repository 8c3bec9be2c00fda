"""The numbers of a row of a gradient study, with their intervals."""

from __future__ import annotations

from collections.abc import Iterator

from maxk_lab.report.rows import Measured
from maxk_lab.statistics.errors import THESE
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.row.model import GradientRow

_TYPICAL = MEASURES.get("relative_variance")


def measured(row: GradientRow) -> dict[str, Measured]:
    """Its measures, the parts of its variance where they were enumerated, and its ratios."""
    found = {}
    for name, interval in row.intervals.items():
        measure = MEASURES.get(name)
        found[name] = Measured(_shown(interval), measure.unit, measure.better)
    if row.typical is not None:
        typical = Measured(_shown(row.typical), _TYPICAL.unit, _TYPICAL.better)
        found["typical_relative_variance"] = typical
    for name, value in row.anatomy.items():
        part = Interval(value, value, value, 1.0, question=THESE)
        found[name] = Measured(part, MEASURES.get(name).unit)
    return found | {
        name: Measured(_shown(ratio), "1", "lower", of_pair=True) for name, ratio in _ratios(row)
    }


def _ratios(row: GradientRow) -> Iterator[tuple[str, Interval]]:
    """The ratios of the variance to those of other rows."""
    if row.over_best is not None:
        yield "over_best", row.over_best
    if row.over_least is not None:
        yield "over_least", row.over_least.mean
        if row.over_least.typical is not None:
            yield "typical_over_least", row.over_least.typical.median


def _shown(found: Interval) -> Interval:
    """The interval; without a value where it has no ends, as in every table."""
    return found if found.known else undefined(found.level, found.reason or "no interval")
