"""Measures of a gradient estimate ĝ of ∇J as functions of four moments.

Every measure takes the moments E‖ĝ‖² (`m2`), ‖E ĝ‖² (`mean_square`), ⟨E ĝ, ∇J⟩ (`inner`) and ‖∇J‖²
(`truth`), each a mean over resampling units. All arrays have one shape. F moments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from operator import itemgetter

import numpy as np

from maxk_lab.catalogue import load
from maxk_lab.statistics.estimates import Array, Tangent, stratified_mean
from maxk_lab.statistics.measures import MEASURES, MeasureRow, measures_of
from maxk_lab.statistics.units import FIELDS, Units

Function = Callable[[Array], Array]


def variance(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """Return tr Cov ĝ."""
    return m2 - mean_square


def snr(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """Return ‖E ĝ‖² / tr Cov ĝ."""
    return mean_square / (m2 - mean_square)


def mean_square(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """Return ‖E ĝ‖²."""
    return mean_square


def squared_bias(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """Return ‖E ĝ − ∇J‖²."""
    return mean_square - 2 * inner + truth


def scale(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """Return the c that minimises ‖E ĝ − c ∇J‖."""
    return inner / truth


def cosine(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """Return the cosine of the angle between E ĝ and ∇J."""
    cosines: Array = inner / np.sqrt(np.maximum(mean_square, 1e-300) * np.maximum(truth, 1e-300))
    return cosines


@cache
def moment_function(name: str) -> Function:
    """Return the function from the moments [F, ...] to a moment or measure by its name."""
    if name in FIELDS:
        return itemgetter(FIELDS.index(name))
    function = load(MEASURES.get(name).implementation)
    return lambda means: function(*means)


def quotient_of(row: MeasureRow) -> tuple[Function, Function]:
    """Return the numerator and the denominator of a measure as functions of the moments."""
    function, norms = moment_function(row.name), [moment_function(name) for name in row.divides_by]

    def bottom(means: Array) -> Array:
        product = np.prod([norm(means) for norm in norms], axis=0) if norms else np.ones(())
        # With two squared norms, the denominator is the root of their product.
        return np.sqrt(np.maximum(product, 0.0)) if len(norms) > 1 else product

    def top(means: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            product: Array = function(means) * bottom(means)
        return product

    return top, bottom


def tangent(function: Function, means: Array) -> Tangent:
    """Return the tangent of a function at means [F] by central differences."""
    step = 1e-4 * np.maximum(np.abs(means), 1e-3 * np.abs(means).max())
    step = np.where(step > 0, step, 1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        ahead = function(means[:, None] + np.diag(step))
        behind = function(means[:, None] - np.diag(step))
        slopes = (ahead - behind) / (2 * step)
        value = float(function(means))
    return Tangent(value, np.broadcast_to(slopes, means.shape))


def point_estimates(units: Units, undefined: dict[str, str]) -> dict[str, float | None]:
    """Return the point estimate of each measure; None if undefined, with the reason in `undefined`.

    A measure is undefined if its denominator is not positive, or if no unit has a value.
    """
    means = stratified_mean(units.columns(), units.stratum)
    points: dict[str, float | None] = {}
    for row in measures_of("gradient"):
        if row.source != "moments":
            continue
        reason = units.no_signal
        if not reason and not all(moment_function(name)(means) > 0 for name in row.divides_by):
            reason = "the estimated squared norm it divides by is not positive"
        if reason:
            undefined[row.name] = reason
        points[row.name] = None if reason else _point(row, units, means)
    number = units.effective_instances()["gradient"]
    points["effective_instances"] = None if math.isnan(number) else number
    if math.isnan(number):
        undefined["effective_instances"] = "the mean squared norm of the gradient is not positive"
    for name in units.measures:
        values, stratum = units.defined(name)
        points[name] = float(stratified_mean(values, stratum)[0]) if len(stratum) else None
        if not len(stratum):
            undefined[name] = "undefined on every resampling unit of a stratum"
    return points


def _point(row: MeasureRow, units: Units, means: Array) -> float:
    if row.name == "squared_bias" and units.squared_bias is not None:
        return float(stratified_mean(units.squared_bias[np.newaxis], units.stratum)[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        if not row.inverse_of:
            return float(moment_function(row.name)(means))
        inverse = float(moment_function(row.inverse_of)(means))
        return 1 / inverse if inverse else math.nan
