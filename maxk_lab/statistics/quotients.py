"""Measures as quotients of functions of the moments' means, and the intervals of quotients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import scipy

from maxk_lab.catalogue import load
from maxk_lab.statistics.errors import THESE, Errors
from maxk_lab.statistics.measures import MEASURES, MeasureRow
from maxk_lab.statistics.spread import FEWEST_EFFECTIVE, one_without_skewness, reach_of_t
from maxk_lab.statistics.units import FIELDS, Array

# An end farther than 1.5 to this power times the error counts as infinite.
FARTHEST = 60
NO_ERROR = "too few groups an instance: no interval"
Function = Callable[[Array], Array]


def both_reasons(*reasons: str) -> str:
    """The reasons that there are, in one line."""
    return "; ".join(filter(None, reasons))


@cache
def of_moments(name: str) -> Callable[[Array], Array]:
    """Return the function from the unit columns' means [F, ...] to a moment or measure of them."""
    if name in FIELDS:
        return itemgetter(FIELDS.index(name))
    function = load(MEASURES.get(name).implementation)
    return lambda means: function(*means)


def ratio_of(row: MeasureRow) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The two functions of the moments' means whose quotient a measure is."""
    function, norms = of_moments(row.name), [of_moments(name) for name in row.divides_by]

    def bottom_of(means: Array) -> Array:
        found = np.prod([norm(means) for norm in norms], axis=0) if norms else np.ones(())
        # A measure that divides by two norms divides by the root of their product.
        return np.sqrt(np.maximum(found, 0.0)) if len(norms) > 1 else found

    def top_of(means: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            product: Array = function(means) * bottom_of(means)
        return product

    return top_of, bottom_of


class Tangent(NamedTuple):
    """A function of means at their estimate: its value, and its derivative by each of them."""

    value: float
    slopes: Array


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


class Quotient(NamedTuple):
    """A quotient and the values that are not rejected; NaN with a reason where there is none."""

    value: float
    low: float
    high: float
    reason: str = ""


def quotient(errors: Errors, top: Tangent, bottom: Tangent, level: float) -> Quotient:
    """The quotient of two functions of the means whose `errors` are known.

    θ is not rejected where top − θ bottom lies within its own error of 0 (Fieller 1954), with the
    skewness that it has at this θ taken out. The ends are infinite where values so far are not
    rejected; there is no quotient where `bottom` is not positive.
    """
    nan = math.nan
    if not bottom.value > 0:
        return Quotient(nan, nan, nan, "the estimated norm it divides by is not positive")
    value = top.value / bottom.value
    rest = top.slopes - value * bottom.slopes
    spread = errors.spread(rest)
    if not spread.error > 0:
        # Of these, an error of 0 is one where what varies cancels, or where nothing varies at all.
        varies = errors.parts[rest != 0].any() or not errors.parts.any()
        known = spread.error == 0 and (varies or errors.question != THESE)
        end = value if known else nan
        return Quotient(value, end, end, "" if known else NO_ERROR)
    blocks = errors.effective_blocks(rest)
    if errors.question == THESE and blocks < FEWEST_EFFECTIVE - 1e-9:
        why = f"an effective {blocks:.1f} blocks of groups carry its error"
        return Quotient(value, nan, nan, f"{why}: no interval")
    reach = reach_of_t(spread.freedom, (1 - level) / 2)
    step = spread.error / bottom.value
    # Around the estimate, where nothing cancels.
    seconds, thirds = errors.powers(rest, bottom.slopes)

    def t(away: float) -> float:
        """The t statistic of top − θ bottom, its skewness taken out, θ so far from the estimate."""
        variance = polynomial(seconds, away)
        if variance <= 0:
            return math.copysign(math.inf, -away)
        error = math.sqrt(variance)
        skewness = polynomial(thirds, away) / error**3
        return one_without_skewness(-away * bottom.value / error, skewness)

    low = value + _crossing(lambda away: t(away) - reach, -step)
    high = value + _crossing(lambda away: -t(away) - reach, step)
    return Quotient(value, low, high)


def polynomial(coefficients: Sequence[float], at: float) -> float:
    """The value of a polynomial; the coefficient of the highest power comes first."""
    value = 0.0
    for coefficient in coefficients:
        value = value * at + coefficient
    return value


def _crossing(excess: Callable[[float], float], step: float) -> float:
    """The first zero of a function that is negative at 0, in the direction of `step`.

    Infinite where it stays negative as far as it is followed.
    """
    inner = 0.0
    for _ in range(FARTHEST):
        if excess(step) >= 0:
            return float(scipy.optimize.brentq(excess, inner, step, xtol=1e-9 * abs(step)))
        inner, step = step, 1.5 * step
    return math.copysign(math.inf, step)
