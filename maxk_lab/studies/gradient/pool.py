"""Gradient records → rows pooled over seeds, with their measures and the rows of proxies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.ranges import Range
from maxk_lab.reports.naming import Setting, environment_label, setting_of
from maxk_lab.reports.tables import Pooled, grouped, members_by_key
from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.statistics.deviations import LEAST_CARRYING
from maxk_lab.statistics.intervals import Interval, exactly, interval, undefined
from maxk_lab.statistics.log_ratios import (
    typical_relative_variance,
)
from maxk_lab.statistics.measures import group_names, measures_of
from maxk_lab.statistics.seeds import skewed_mean
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.record import Metrics
from maxk_lab.studies.gradient.row import (
    ALONE,
    GradientKey,
    GradientRow,
    ProxyKey,
    ProxyRow,
    method_order,
    shared_estimator,
)

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record

# The distance of the sampling policy from the policy of the gradient.
DISTANCE = "behaviour.distance"
# Measures of every row, measured or undefined.
ALWAYS = tuple(
    row.name for row in measures_of("gradient") if row.source == "moments" and row.heading
)
# Measures of some studies only.
SOMETIMES = (*group_names("gradient", "weights", "value"), *group_names("gradient", "ratios"))


def key(cell: Mapping[str, Any]) -> GradientKey:
    """Return the key of the row of a cell."""
    return GradientKey.of(cell, stage=cell["stage"], setting=_setting(cell))


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[GradientRow]:
    """Return the rows of the planned cells, and the rows of the proxies."""
    read = {cell["id"]: Metrics.of(done[cell["id"]]) for cell in cells if cell["id"] in done}
    rows = [_pooled(*members, read, level) for members in members_by_key(cells, done, key)]
    places = grouped(cells, lambda cell: (environment_label(cell), _setting(cell), cell["stage"]))
    proxies = tuple(_proxy_rows(places, read, level))
    return Pooled(tuple(rows), proxies=proxies)


def _setting(cell: Mapping[str, Any]) -> Setting:
    """Return the varied values, with the distance of the sampling policy unless it is 0."""
    setting, distance = setting_of(cell), cell.get("behaviour", {}).get("distance", 0.0)
    varied = not distance or DISTANCE in dict(setting)
    return setting if varied else (*setting, (DISTANCE, distance))


def _unbiased(key: GradientKey) -> bool:
    """Return whether the estimate is unbiased by proof under the sampling policy."""
    method = key.method
    # Samples of another policy need importance ratios.
    on_policy = dict(key.setting).get(DISTANCE, 0) <= 0 or method.needs_ratios
    return method.is_unbiased and on_policy and not key.selected


def _pooled(
    key: GradientKey,
    cells: Sequence[Mapping[str, Any]],
    done: Mapping[int, Record],
    read: Mapping[str, Metrics],
    level: float,
) -> GradientRow:
    finished = [cell for cell in cells if cell["seed"] in done]
    metrics = [read[cell["id"]] for cell in finished]
    references = {m.against for m in metrics}
    row = GradientRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(done),
        intervals={},
        bias=BiasVerdict("undefined"),
        catalogued_unbiased=_unbiased(key),
        instances=cells[0]["instances"],
        pool=cells[0]["pool"],
        # Near the limit of enumeration, some groups are enumerated and some are sampled.
        against="exact"
        if references == {"complete", "exact"}
        else " and ".join(sorted(references)),
    )
    several = " and " in row.against
    reason = "the seeds were measured in different ways and cannot be pooled" if several else ""
    if reason := row.unfinished or reason:
        return replace(
            row,
            intervals={measure: undefined(level, reason) for measure in ALWAYS},
            bias=BiasVerdict("undefined", reason=reason),
        )
    units = Units.pool([_units(m, row.pool) for m in metrics])
    if dict(key.setting).get(DISTANCE) == 0:
        # Without another policy, the importance ratios are exactly 1.
        count = len(units.m2)
        needing = [measure for measure in measures_of("gradient") if measure.needs == "behaviour"]
        ratios = {measure.name: np.full(count, measure.on_policy) for measure in needing}
        errors = {**units.errors, **{name: np.zeros(count) for name in ratios}}
        units = replace(units, measures={**units.measures, **ratios}, errors=errors)
    measured = (*ALWAYS, *(name for name in SOMETIMES if name in units.measures))
    intervals = {name: _measure(units, name, level) for name in measured}
    if units.no_signal:
        # A row without units has no comparisons.
        verdict = BiasVerdict("undefined", reason=units.no_signal)
        return replace(row, intervals=intervals, bias=verdict, no_signal=units.no_signal)
    return replace(
        row,
        intervals=intervals,
        units=units,
        typical=typical_relative_variance(units, unbiased=row.catalogued_unbiased, level=level),
        carrying=units.effective_instances(),
    )


def _units(metrics: Metrics, pool: int) -> Units:
    """Return the units of a record; `carrying` comes from `tested_from` in old records."""
    units = Units.of(metrics)
    if units.carrying is not None or metrics.tested_from is None:
        return units
    least = np.array(metrics.tested_from, dtype=float)
    with np.errstate(divide="ignore"):
        carrying = np.nan_to_num(LEAST_CARRYING * pool / least, nan=0.0, posinf=pool)
    return replace(units, carrying=carrying)


def _measure(units: Units, name: str, level: float) -> Interval:
    value = interval(units, name, level=level)
    constant = name in ALWAYS or (name in group_names("gradient", "value") and value.width == 0)
    return undefined(level, units.no_signal) if units.no_signal and constant else value


def estimates(row: GradientRow | ProxyRow) -> dict[str, Interval]:
    """Return the measures of a row, its ratios to other rows, and its counts."""
    if isinstance(row, ProxyRow):
        counts = {"instances": row.instances, "instances_without": row.without}
        exact = {name: exactly(count) for name, count in counts.items()}
        return {"correlation": _with_ends(row.correlation)} | exact
    measured = {**row.intervals, **row.ratios}
    if row.typical is not None:
        measured["median_relative_variance"] = row.typical
    numbers = {
        "bias_at_most": row.bias.at_most,
        "detectable_bias": row.bias.detectable,
        "instances": row.instances,
        "pool": row.pool,
        **{f"effective_instances_{name}": value for name, value in row.carrying.items()},
    }
    exact = {name: exactly(value) for name, value in numbers.items() if not math.isnan(value)}
    return {name: _with_ends(each) for name, each in measured.items()} | exact


def _with_ends(value: Interval) -> Interval:
    """Return the interval; undefined if it has no ends, as in every table."""
    return value if value.defined else undefined(value.level, value.reason or "no interval")


def _proxy_rows(
    places: Mapping[tuple[str, Setting, int], Sequence[Mapping[str, Any]]],
    read: Mapping[str, Metrics],
    level: float,
) -> Iterator[ProxyRow]:
    """Yield a row for each proxy in the records of a place.

    All cells of a stage and seed share one pool, so any record has its correlations.
    """
    for (environment, setting, stage), cells in places.items():
        seeds: dict[int, str] = {}
        for cell in sorted(cells, key=lambda cell: int(cell["seed"])):
            has_proxies = cell["id"] in read and bool(read[cell["id"]].proxies)
            seeds[cell["seed"]] = seeds.get(cell["seed"]) or (cell["id"] if has_proxies else "")
        by_seed = [read[cell].proxies for cell in seeds.values() if cell]
        for proxy in dict.fromkeys(name for proxies in by_seed for name in proxies):
            values = [proxies[proxy] for proxies in by_seed if proxy in proxies]
            defined = [[value for value in each if value is not None] for each in values]
            total = sum(map(len, values))
            yield ProxyRow(
                key=ProxyKey(environment, setting, stage, proxy),
                cells=seeds,
                finished=tuple(seed for seed, cell in seeds.items() if cell),
                correlation=_correlation(defined, len(seeds), level),
                instances=total,
                without=total - sum(map(len, defined)),
            )


def _correlation(defined: Sequence[Sequence[float]], seeds: int, level: float) -> Interval:
    if len(defined) < seeds:
        return undefined(level, f"incomplete: {len(defined)} of {seeds} seeds finished")
    if not all(defined):
        return undefined(level, "constant on every instance of a seed: no correlation")
    seed = np.repeat(np.arange(len(defined)), [len(values) for values in defined])
    return skewed_mean(
        np.concatenate(defined), level, within=Range(-1.0, 1.0), stratum=seed, of="instances"
    )


def sorted_rows(rows: Sequence[GradientRow]) -> list[GradientRow]:
    """Return the rows by environment, estimator, stage, setting, K, n and the order of methods.

    Values do not affect the order. Settings have the order of the sweep file.
    """
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            shared_estimator(row) == ALONE,
            shared_estimator(row),
            row.key.stage,
            settings.index(row.key.setting),
            row.key.k,
            row.key.n,
            method_order(row),
        ),
    )
