"""Records of a weights study → rows: the weights that an estimator gives groups of rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxk_lab.reports.naming import GridKey
from maxk_lab.reports.tables import ROUNDING, ExactRow
from maxk_lab.statistics.intervals import Interval, exactly, undefined
from maxk_lab.statistics.measures import MEASURES, measures_of


@dataclass(frozen=True, kw_only=True)
class WeightsKey(GridKey):
    """The point of a grid whose weights are shown."""

    @property
    def pair(self) -> str:
        """Estimator and baseline, if it takes one."""
        takes = self.method.takes_baseline
        return f"{self.estimator} {self.baseline}" if takes else self.estimator


@dataclass(frozen=True, kw_only=True)
class WeightsRow(ExactRow):
    """One (environment, setting, estimator, baseline, n, K): the groups of each finished seed."""

    key: WeightsKey

    @property
    def details(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The rewards and the weights of every group."""
        return {
            "groups": [
                {"group": number, "rewards": rewards, "weights": weights}
                for number, (rewards, weights) in enumerate(self.groups)
            ]
        }

    def pooled(self, measure: str) -> float:
        """A measure over all seeds; NaN if a seed is missing."""
        if not self.all_finished:
            return math.nan
        # A record from before a measure was added lacks it.
        found = [getattr(one, measure, math.nan) for one in self.by_seed.values()]
        return float(min(found) if MEASURES.get(measure).pooled == "least" else np.mean(found))

    @property
    def groups(self) -> list[tuple[list[float], list[float]]]:
        """(rewards, weights) of every group, seed by seed."""
        return [
            pair
            for one in self.by_seed.values()
            for pair in zip(one.rewards, one.weights, strict=True)
        ]


key = WeightsKey.of


Row = WeightsRow


def sorted_rows(rows: Sequence[WeightsRow]) -> list[WeightsRow]:
    """The rows by environment, setting, n, K and the catalogue; settings as in the sweep file."""
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            settings.index(row.key.setting),
            row.key.n,
            row.key.k,
            row.key.method.catalogue_order,
        ),
    )


def estimates(row: WeightsRow) -> dict[str, Interval]:
    """Every measure of the weights; undefined where a seed is missing."""
    values = {measure.name: row.pooled(measure.name) for measure in measures_of("weights")}
    reason = row.unfinished or "not measured"
    return {
        name: undefined(1.0, reason) if math.isnan(value) else exactly(value)
        for name, value in values.items()
    }


def rounding(row: WeightsRow, name: str) -> float:
    """How far rounding may move a measure."""
    sizes = (abs(one) for rewards, weights in row.groups for one in (*rewards, *weights))
    return ROUNDING * max(sizes, default=0.0)
