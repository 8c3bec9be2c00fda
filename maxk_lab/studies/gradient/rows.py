"""Records of the gradient study → rows pooled over seeds, with intervals and bias verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.report.naming import Setting, environment_label, setting_of
from maxk_lab.report.tables import Pooled, grouped
from maxk_lab.statistics.bias import BiasVerdict, bias_verdicts
from maxk_lab.statistics.intervals import Interval, carrying_instances, interval, undefined
from maxk_lab.statistics.measures import in_group, measures_of
from maxk_lab.statistics.typical import typical_relative_variance
from maxk_lab.statistics.units import Units, stratified_mean
from maxk_lab.studies.gradient.columns import ALWAYS, ANATOMY, SOMETIMES
from maxk_lab.studies.gradient.proxies import proxy_rows
from maxk_lab.studies.gradient.record import Metrics
from maxk_lab.studies.gradient.row.best import FOUND_BIASED, mark_best, with_over_least
from maxk_lab.studies.gradient.row.best_possible import with_over_best
from maxk_lab.studies.gradient.row.model import (
    DISTANCE,
    GradientKey,
    GradientRow,
    ProxyRow,
    Untested,
)

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record


ALARM = (
    "rejected although proven unbiased: the pool misses trajectories that carry the gradient, or "
    "sampling is not i.i.d."
)


@dataclass(frozen=True)
class GradientRows(Pooled[GradientRow]):
    """The rows of a gradient study, and of the proxies that its records report."""

    proxies: tuple[ProxyRow, ...] = ()


def key(cell: Mapping[str, Any]) -> GradientKey:
    """The row that a cell belongs to."""
    return GradientKey.of(cell, stage=cell["stage"], setting=_setting(cell))


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> GradientRows:
    """One row per key of the planned cells, judged and compared, and the rows of the proxies."""
    read = {cell["id"]: Metrics.of(done[cell["id"]]) for cell in cells if cell["id"] in done}
    rows = [_pooled(found, cells, read, level) for found, cells in grouped(cells, key).items()]
    judged = bias_verdicts(
        {row.key: row.units for row in rows if row.units is not None and _testable(row)},
        alpha=alpha,
    )
    rows = [replace(row, bias=_verdict(row, judged.get(row.key, row.bias))) for row in rows]
    rows = with_over_least(with_over_best(mark_best(rows, alpha=alpha), level), level=level)
    places = grouped(cells, lambda cell: (environment_label(cell), _setting(cell), cell["stage"]))
    return GradientRows(tuple(rows), proxies=tuple(proxy_rows(places, read, level)))


def _setting(cell: Mapping[str, Any]) -> Setting:
    """The varied values; with the distance of the policy that samples, wherever that is another."""
    found, distance = setting_of(cell), cell.get("behaviour", {}).get("distance", 0.0)
    return found if not distance or DISTANCE in dict(found) else (*found, (DISTANCE, distance))


def _pooled(
    key: GradientKey, cells: Sequence[Mapping[str, Any]], read: Mapping[str, Metrics], level: float
) -> GradientRow:
    cells = sorted(cells, key=lambda cell: int(cell["seed"]))
    finished = [cell for cell in cells if cell["id"] in read]
    metrics = [read[cell["id"]] for cell in finished]
    row = GradientRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(cell["seed"] for cell in finished),
        intervals={},
        bias=BiasVerdict("undefined"),
        catalogued_unbiased=_derived_unbiased(key),
        instances=cells[0]["instances"],
        pool=cells[0]["pool"],
        against=_against({m.against for m in metrics}),
    )
    reason = _why_not_pooled(row, metrics)
    if reason:
        return replace(
            row,
            intervals={measure: undefined(level, reason) for measure in ALWAYS},
            bias=BiasVerdict("undefined", reason=reason),
        )
    units = Units.pool([Units.of(m) for m in metrics])
    untested = _untested(finished, metrics)
    if untested is not None and untested.everywhere:
        row = replace(row, bias=BiasVerdict("undefined", reason=untested.reason))
    if dict(key.setting).get(DISTANCE) == 0:
        known = _without_distance(len(units.m2))
        units = replace(
            units,
            measures={**units.measures, **known},
            errors={**units.errors, **{name: np.zeros(len(units.m2)) for name in known}},
        )
    measured = (*ALWAYS, *(name for name in SOMETIMES if name in units.measures))
    intervals = {name: _measure(units, name, level) for name in measured}
    if units.no_signal:
        # Without units a row takes part in no comparison; how often groups are dead stays.
        verdict = BiasVerdict("undefined", reason=units.no_signal)
        return replace(row, intervals=intervals, bias=verdict, no_signal=units.no_signal)
    return replace(
        row,
        intervals=intervals,
        anatomy=_anatomy(units),
        units=units,
        typical=typical_relative_variance(units, unbiased=row.catalogued_unbiased, level=level),
        carrying=carrying_instances(units),
        untested=untested,
    )


def _verdict(row: GradientRow, judged: BiasVerdict) -> BiasVerdict:
    """The verdict on a row; a test that rejects what is unbiased by proof is an alarm.

    Enumeration proves a bias: there the derivation itself is refuted.
    """
    if not row.catalogued_unbiased or row.enumerated or judged.verdict not in FOUND_BIASED:
        return judged
    return replace(judged, verdict="alarm", reason=ALARM)


def _testable(row: GradientRow) -> bool:
    return row.untested is None or not row.untested.everywhere


def _untested(cells: Sequence[Mapping[str, Any]], metrics: Sequence[Metrics]) -> Untested | None:
    """The instances whose pool is too small for a test; None where there are none."""
    needed = [
        (math.inf if least is None else least, cell["pool"])
        for cell, found in zip(cells, metrics, strict=True)
        if not found.is_reference
        for least in found.tested_from or ()
    ]
    missing = [least for least, size in needed if least > size]
    if not missing:
        return None
    return Untested(len(missing), sum(cell["instances"] for cell in cells), max(missing))


def _derived_unbiased(key: GradientKey) -> bool:
    """Whether the catalogue derives this row as unbiased.

    On trajectories of another policy, only estimators that weigh them by their ratios are.
    """
    off_policy = dict(key.setting).get(DISTANCE, 0) > 0
    return key.method.is_unbiased and (not off_policy or key.method.needs_ratios)


def _without_distance(count: int) -> dict[str, np.ndarray]:
    """The measures that need another policy where there is none, on so many units."""
    needing = (row for row in measures_of("gradient") if row.needs == "behaviour")
    return {row.name: np.full(count, row.on_policy) for row in needing}


def _anatomy(units: Units) -> dict[str, float]:
    """The parts that sum to the variance, pooled as it is; empty where they were not enumerated."""
    if not all(name in units.measures for name in ANATOMY):
        return {}
    parts = stratified_mean(np.stack([units.measures[name] for name in ANATOMY]), units.members())
    return {} if np.isnan(parts).any() else dict(zip(ANATOMY, parts.tolist(), strict=True))


def _against(ways: set[str]) -> str:
    """The one word for what all seeds are judged against.

    Near the limit of enumeration some of their groups are enumerated and some sampled.
    """
    return "exact" if ways == {"complete", "exact"} else " and ".join(sorted(ways))


def _why_not_pooled(row: GradientRow, metrics: Sequence[Metrics]) -> str:
    if row.unfinished:
        return row.unfinished
    if " and " in row.against:
        return "the seeds were measured in different ways and cannot be pooled"
    if not all(m.units.m2 for m in metrics):
        return (
            "; ".join(sorted({text for m in metrics for text in m.undefined.values()}))
            or "no units"
        )
    return ""


def _measure(units: Units, name: str, level: float) -> Interval:
    if name in ALWAYS and (np.isnan(units.m2).any() or np.isnan(units.mean_square).any()):
        return undefined(level, "fewer than two replicates: no unbiased estimate of the variance")
    found = interval(units, name, level=level)
    never_varied = name in ALWAYS or (name in in_group("gradient", "value") and found.width == 0)
    return undefined(level, units.no_signal) if units.no_signal and never_varied else found
