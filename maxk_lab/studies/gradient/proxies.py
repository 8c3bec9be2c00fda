"""How well cheap trajectory weights track ‖ψ‖²: their correlation with it at each stage of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.report.document import UNDEFINED, Column, Section, Sheet, compact
from maxk_lab.report.model import ProxyRow, Summary
from maxk_lab.report.naming import Setting, environment_label, setting_of
from maxk_lab.statistics.intervals import Interval, bootstrap, undefined
from maxk_lab.studies.gradient.columns import setting_columns

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

# Environment, setting and stage.
_Place = tuple[str, Setting, int]


def proxy_rows(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], level: float
) -> list[ProxyRow]:
    """One row per (environment, setting, stage, proxy) that any finished gradient cell reports."""
    stages: dict[_Place, dict[int, Mapping[str, Any] | None]] = {}
    for cell in cells:
        by_seed = stages.setdefault((environment_label(cell), setting_of(cell), cell["stage"]), {})
        record = done.get(cell["id"])
        found = None if record is None else (record.metrics or {}).get("proxies")
        # All cells of a stage and seed share one pool, so any of them tells its correlations.
        by_seed[cell["seed"]] = by_seed.get(cell["seed"]) or found
    return [
        _pooled(place, proxy, [by_seed[seed] for seed in sorted(by_seed)], level)
        for place, by_seed in stages.items()
        for proxy in dict.fromkeys(name for found in by_seed.values() for name in found or ())
    ]


def _pooled(
    place: _Place, proxy: str, found: Sequence[Mapping[str, Any] | None], level: float
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
    ends = np.cumsum([0, *map(len, defined)])
    members = [np.arange(*pair) for pair in pairwise(ends)]
    return bootstrap(
        np.concatenate(defined)[None], members, lambda means: means[0], level=level, seed=0
    )


def proxy_section(summary: Summary) -> Section:
    """A sheet per environment: the mean correlation of each proxy at each stage."""
    rows = summary.proxies
    if not rows:
        return Section("proxies", (), ())
    by_environment = {
        environment: tuple(found)
        for environment, found in groupby(rows, key=lambda row: row.environment)
    }
    sheets = tuple(
        _sheet(environment, found, summary)
        for environment, found in by_environment.items()
        # Where nothing ever varies (a Gaussian policy has neither lengths nor logits) there is nothing to read.
        if any(row.without < row.instances or not row.instances for row in found)
    )
    records = tuple(
        dict(row.setting) | {n: v for column in _COLUMNS for n, v in column.values(row).items()}
        for row in rows
    )
    return Section("proxies", sheets, records)


def _sheet(environment: str, rows: tuple[ProxyRow, ...], summary: Summary) -> Sheet:
    caption = [
        "Correlation over the trajectories of one instance with the exact ‖ψ‖², ψ = ∇ log π; mean over instances.",
        f"Intervals: {summary.level:.0%}, bootstrap over instances, stratified by seed; policies are held fixed.",
    ]
    if any(row.without for row in rows):
        caption.append(
            "constant on: instances left out, because the proxy or ‖ψ‖² does not vary there."
        )
    reasons = [row.correlation.reason for row in rows if not row.correlation.known]
    caption += [f"{UNDEFINED}: {reason}." for reason in dict.fromkeys(reasons)]
    places = [(row.setting, row.stage) for row in rows]
    rules = tuple(i for i in range(1, len(rows)) if places[i] != places[i - 1])
    # The environment is in the title.
    columns = (*setting_columns([row.setting for row in rows]), *_COLUMNS[1:])
    return Sheet(
        f"How well the proxies track ‖ψ‖²: {environment}", columns, rows, tuple(caption), rules
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
