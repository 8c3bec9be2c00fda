"""The correlation of cheap trajectory weights with ‖ψ‖² at each stage of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxk_lab.ranges import Range
from maxk_lab.report.document import (
    UNDEFINED,
    Column,
    Section,
    Sheet,
    breaks_between,
    compact,
    setting_columns,
)
from maxk_lab.report.naming import Setting
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.skewed_mean import skewed_mean
from maxk_lab.studies.gradient.record import Metrics
from maxk_lab.studies.gradient.row.model import ProxyRow

# Environment, setting and stage.
_Place = tuple[str, Setting, int]
_MEANINGS = {
    "proxy": "a number of a trajectory that is cheap to have, and might tell the length of its ψ",
    "correlation": "with the exact ‖ψ‖², ψ = ∇ log π, over trajectories; mean over instances",
    "instances_without": "instances left out, because the proxy or ‖ψ‖² does not vary there",
}
# Correlations by proxy, one per instance, None where undefined.
_Correlations = Mapping[str, Sequence[float | None]]


def proxy_rows(
    places: Mapping[_Place, Sequence[Mapping[str, Any]]], read: Mapping[str, Metrics], level: float
) -> list[ProxyRow]:
    """One row per proxy that any finished one of the cells of a place reports."""
    return [
        _pooled(place, proxy, found, level)
        for place, cells in places.items()
        for found in [_by_seed(cells, read)]
        for proxy in dict.fromkeys(name for each in found for name in each or ())
    ]


def _by_seed(
    cells: Sequence[Mapping[str, Any]], read: Mapping[str, Metrics]
) -> list[_Correlations | None]:
    """The correlations of each seed; None where none of its cells has any.

    All cells of a stage and seed share one pool, so any of them tells its correlations.
    """
    found: dict[int, _Correlations | None] = {}
    for cell in cells:
        own = read.get(cell["id"])
        found[cell["seed"]] = found.get(cell["seed"]) or (None if own is None else own.proxies)
    return [found[seed] for seed in sorted(found)]


def _pooled(
    place: _Place, proxy: str, found: Sequence[_Correlations | None], level: float
) -> ProxyRow:
    environment, setting, stage = place
    known = [each[proxy] for each in found if each is not None and proxy in each]
    defined = [[value for value in values if value is not None] for values in known]
    total = sum(map(len, known))
    return ProxyRow(
        environment=environment,
        stage=stage,
        proxy=proxy,
        correlation=_interval(defined, len(found), level),
        seeds=len(found),
        instances=total,
        without=total - sum(map(len, defined)),
        setting=setting,
    )


def _interval(defined: Sequence[Sequence[float]], seeds: int, level: float) -> Interval:
    if len(defined) < seeds:
        return undefined(level, f"incomplete: {len(defined)} of {seeds} seeds finished")
    if not all(defined):
        return undefined(level, "constant on every instance of a seed: no correlation")
    seed = np.repeat(np.arange(len(defined)), [len(values) for values in defined])
    return skewed_mean(
        np.concatenate(defined), level, within=Range(-1.0, 1.0), stratum=seed, of="instances"
    )


def proxy_section(rows: Sequence[ProxyRow], level: float) -> Section:
    """A sheet per environment: the mean correlation of each proxy at each stage."""
    sheets = tuple(
        _sheet(environment, tuple(found), level)
        for environment, found in grouped(rows, lambda row: row.environment).items()
        # Where nothing ever varies (a Gaussian policy has neither lengths nor logits) there is
        # nothing to read.
        if any(row.without < row.instances or not row.instances for row in found)
    )
    return Section("proxies", sheets, tuple(map(_record, rows)), meanings=_MEANINGS)


def _record(row: ProxyRow) -> dict[str, Any]:
    flat = dict(row.setting)
    for column in _COLUMNS:
        flat |= column.values(row)
    return flat


def _sheet(environment: str, rows: tuple[ProxyRow, ...], level: float) -> Sheet:
    caption = [
        "Correlation over the trajectories of one instance with the exact ‖ψ‖², ψ = ∇ log π; "
        "mean over instances.",
        f"Intervals: {level:.0%}, about instances like these, drawn anew within each seed; "
        "policies are held fixed.",
    ]
    if any(row.without for row in rows):
        caption.append(
            "constant on: instances left out, because the proxy or ‖ψ‖² does not vary there."
        )
    reasons = [row.correlation.reason for row in rows if not row.correlation.known]
    caption += [f"{UNDEFINED}: {reason}." for reason in dict.fromkeys(reasons)]
    return Sheet(
        f"How well the proxies track ‖ψ‖²: {environment}",
        # The environment is in the title.
        (*setting_columns([row.setting for row in rows]), *_COLUMNS[1:]),
        rows,
        tuple(caption),
        breaks_between([(row.setting, row.stage) for row in rows]),
    )


def _correlation(row: ProxyRow) -> Mapping[str, Any]:
    found = row.correlation
    undefined = {} if found.known else {"correlation": found.reason}
    return found.columns("correlation") | {"undefined": undefined}


_COLUMNS = (
    Column(
        "environment", lambda row: row.environment, lambda row: {"environment": row.environment}
    ),
    Column("stage", lambda row: str(row.stage), lambda row: {"stage": row.stage}, numeric=True),
    Column("proxy", lambda row: row.proxy, lambda row: {"proxy": row.proxy}),
    Column(
        "correlation with ‖ψ‖²", lambda row: compact(row.correlation), _correlation, numeric=True
    ),
    Column(
        "instances",
        lambda row: str(row.instances - row.without),
        lambda row: {"instances": row.instances, "instances_without": row.without},
        numeric=True,
    ),
    Column(
        "constant on",
        lambda row: str(row.without) if row.without else "",
        lambda row: {"seeds": row.seeds},
        numeric=True,
    ),
)
