"""Measures of a gradient estimate ĝ of ∇J from its moments, each a mean over resampling units.

Every measure takes E‖ĝ‖² (`m2`), ‖E ĝ‖² (`mean_square`), ⟨E ĝ, ∇J⟩ (`inner`) and ‖∇J‖² (`truth`),
arrays of one shape, and returns one of that shape.
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
    """tr Cov ĝ."""
    return m2 - mean_square


def snr(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """‖E ĝ‖² / tr Cov ĝ."""
    return mean_square / (m2 - mean_square)


def mean_square(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """‖E ĝ‖²."""
    return mean_square


def squared_bias(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """‖E ĝ − ∇J‖²."""
    return mean_square - 2 * inner + truth


def scale(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """The factor on ∇J that E ĝ is nearest to."""
    return inner / truth


def cosine(m2: Array, mean_square: Array, inner: Array, truth: Array) -> Array:
    """The cosine of the angle between E ĝ and ∇J."""
    cosines: Array = inner / np.sqrt(np.maximum(mean_square, 1e-300) * np.maximum(truth, 1e-300))
    return cosines


@cache
def moment_function(name: str) -> Function:
    """Return the function from the unit columns' means [F, ...] to a moment or measure of them."""
    if name in FIELDS:
        return itemgetter(FIELDS.index(name))
    function = load(MEASURES.get(name).implementation)
    return lambda means: function(*means)


def quotient_of(row: MeasureRow) -> tuple[Function, Function]:
    """The two functions of the moments' means whose quotient a measure is."""
    function, norms = moment_function(row.name), [moment_function(name) for name in row.divides_by]

    def bottom(means: Array) -> Array:
        product = np.prod([norm(means) for norm in norms], axis=0) if norms else np.ones(())
        # A measure that divides by two norms divides by the root of their product.
        return np.sqrt(np.maximum(product, 0.0)) if len(norms) > 1 else product

    def top(means: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            product: Array = function(means) * bottom(means)
        return product

    return top, bottom


def tangent(function: Function, means: Array) -> Tangent:
    """The tangent of a function of means [F], by central differences: exact for linear ones."""
    step = 1e-4 * np.maximum(np.abs(means), 1e-3 * np.abs(means).max())
    step = np.where(step > 0, step, 1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        ahead = function(means[:, None] + np.diag(step))
        behind = function(means[:, None] - np.diag(step))
        slopes = (ahead - behind) / (2 * step)
        value = float(function(means))
    return Tangent(value, np.broadcast_to(slopes, means.shape))


def point_estimates(units: Units, undefined: dict[str, str]) -> dict[str, float | None]:
    """The point estimates; None, with its reason in `undefined`, where there is none.

    There is none where what is divided by is not positive, or no unit has the measure.
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
