"""The numbers of a row of a gradient study, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from maxk_lab.report.tables import ROUNDING, Effect, Estimate
from maxk_lab.statistics.bias import LEAST_SIGNAL
from maxk_lab.statistics.errors import THESE
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.statistics.units import Units, stratified_mean
from maxk_lab.studies.gradient.columns import ANATOMY
from maxk_lab.studies.gradient.row.model import GradientRow

_TYPICAL = MEASURES.get("relative_variance")


def measured(row: GradientRow) -> dict[str, Estimate]:
    """Its measures, the parts of its variance where they were enumerated, and its ratios."""
    found = {}
    for name, interval in row.intervals.items():
        measure = MEASURES.get(name)
        found[name] = Estimate(
            _shown(interval),
            measure.unit,
            measure.better,
            as_ratio=True,
            rounding=_rounding(row.units, name),
        )
    if row.typical is not None:
        found["typical_relative_variance"] = Estimate(
            _shown(row.typical), _TYPICAL.unit, _TYPICAL.better, as_ratio=True
        )
    for name, value in row.anatomy.items():
        part = Interval(value, value, value, 1.0, question=THESE)
        rounding = _rounding(row.units, name)
        found[name] = Estimate(part, MEASURES.get(name).unit, as_ratio=True, rounding=rounding)
    return found | {
        name: Estimate(_shown(ratio), "1", "lower", of_pair=True) for name, ratio in _ratios(row)
    }


def against(row: GradientRow, other: GradientRow, name: str, level: float) -> Effect | None:
    """The ratio of a measure, paired by seed and instance where both rows have the same."""
    if name not in row.intervals or name not in other.intervals or not _paired(row, other):
        return None
    assert row.units is not None
    assert other.units is not None
    found = log_ratio(row.units, other.units, measure=name, level=level).mapped(math.exp)
    return Effect(found, ratio=True, paired="seed and instance") if found.known else None


def _paired(row: GradientRow, other: GradientRow) -> bool:
    """Whether the instances are the same: they are drawn by environment and seed."""
    there = row.units is not None and other.units is not None
    alike = all(
        getattr(row.key, axis) == getattr(other.key, axis) for axis in ("environment", "setting")
    )
    return there and alike and row.finished == other.finished and row.instances == other.instances


def _rounding(units: Units | None, name: str) -> float:
    """How far rounding may move a squared norm, which can be a small difference of large ones.

    Of a bias and of the parts of a variance that were enumerated, what the policy's own precision
    explains counts, as in the verdict on bias.
    """
    if units is None or MEASURES.get(name).unit != MEASURES.get("variance").unit:
        return 0.0
    share, size = ROUNDING, units.m2
    if units.tolerance is not None and name == "squared_bias":
        share = units.tolerance**2
        size = np.maximum(units.truth, LEAST_SIGNAL**2 * units.m2)
    elif units.tolerance is not None and name in ANATOMY:
        share = units.tolerance
    return float(share * np.nan_to_num(stratified_mean(size[np.newaxis], units.members())[0]))


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
