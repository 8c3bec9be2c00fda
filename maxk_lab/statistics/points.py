"""Point estimates of every measure from the units of one cell."""

from __future__ import annotations

import math

import numpy as np

from maxk_lab.statistics.intervals import STATISTICS, defined_members, stratified_mean
from maxk_lab.statistics.units import Units


def point_estimates(units: Units, undefined: dict[str, str]) -> dict[str, float | None]:
    """The point estimates; None with its reason where a norm that is divided by is not positive, or no unit has the measure."""
    means = stratified_mean(units.columns(), units.members())
    points: dict[str, float | None] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name in ("variance", "snr", "mean_square", "squared_bias", "scale", "cosine"):
            points[name] = float(STATISTICS[name](means))
        points["relative_variance"] = 1 / points["snr"] if points["snr"] else math.nan
    if units.squared_bias is not None:
        points["squared_bias"] = float(
            stratified_mean(units.squared_bias[np.newaxis], units.members())[0]
        )
    positive = {
        "relative_variance": means[1] > 0,
        "scale": means[3] > 0,
        "cosine": means[1] > 0 and means[3] > 0,
        "snr": means[0] > means[1],
    }
    for name, fine in positive.items():
        if not fine:
            points[name] = None
            undefined[name] = "the estimated squared norm it divides by is not positive"
    for name, values in units.measures.items():
        members = defined_members(values, units.members())
        points[name] = float(stratified_mean(values[np.newaxis], members)[0]) if members else None
        if not members:
            undefined[name] = "undefined on every resampling unit of a stratum"
    return points
