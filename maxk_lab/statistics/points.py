"""Point estimates of every measure from the units of one cell."""

from __future__ import annotations

import math

import numpy as np

from maxk_lab.statistics.intervals import carrying_instances
from maxk_lab.statistics.measures import MeasureRow, measures_of
from maxk_lab.statistics.quotients import of_moments
from maxk_lab.statistics.units import Units, defined_members, stratified_mean


def point_estimates(units: Units, undefined: dict[str, str]) -> dict[str, float | None]:
    """The point estimates; None, with its reason in `undefined`, where there is none.

    There is none where what is divided by is not positive, or no unit has the measure.
    """
    means = stratified_mean(units.columns(), units.members())
    points: dict[str, float | None] = {}
    for row in measures_of("gradient"):
        if row.source != "moments":
            continue
        if units.no_signal:
            points[row.name] = None
            undefined[row.name] = units.no_signal
        elif all(of_moments(name)(means) > 0 for name in row.divides_by):
            points[row.name] = _of_moments(row, units, means)
        else:
            points[row.name] = None
            undefined[row.name] = "the estimated squared norm it divides by is not positive"
    number = carrying_instances(units)["gradient"]
    points["effective_instances"] = None if math.isnan(number) else number
    if math.isnan(number):
        undefined["effective_instances"] = "the mean squared norm of the gradient is not positive"
    for name, values in units.measures.items():
        members = defined_members(values, units.members())
        points[name] = float(stratified_mean(values[np.newaxis], members)[0]) if members else None
        if not members:
            undefined[name] = "undefined on every resampling unit of a stratum"
    return points


def _of_moments(row: MeasureRow, units: Units, means: np.ndarray) -> float:
    if row.name == "squared_bias" and units.squared_bias is not None:
        return float(stratified_mean(units.squared_bias[np.newaxis], units.members())[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        if not row.inverse_of:
            return float(of_moments(row.name)(means))
        inverse = float(of_moments(row.inverse_of)(means))
        return 1 / inverse if inverse else math.nan
