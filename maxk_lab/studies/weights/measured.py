"""The numbers of a row of weights, which are exact for the groups that it shows."""

from __future__ import annotations

import math

from maxk_lab.report.rows import ROUNDING, Effect, Measured
from maxk_lab.statistics.intervals import exactly, undefined
from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.weights.rows import WeightsRow


def measured(row: WeightsRow) -> dict[str, Measured]:
    """Every measure of the weights; undefined where a seed is missing."""
    found = {}
    sizes = (abs(one) for rewards, weights in row.groups for one in (*rewards, *weights))
    rounding = ROUNDING * max(sizes, default=0.0)
    for measure in measures_of("weights"):
        value = row.pooled(measure.name)
        # A record from before a measure was added lacks it.
        reason = row.unfinished or "not measured"
        known = undefined(1.0, reason) if math.isnan(value) else exactly(value)
        found[measure.name] = Measured(known, measure.unit, measure.better, rounding=rounding)
    return found


def against(row: WeightsRow, other: WeightsRow, name: str, level: float) -> Effect | None:
    """None: exact numbers need no pairs."""
    return None
