"""Optimality gaps: how far rewards are below the optima of their instances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxk_lab.statistics.units import Array

# Rewards are sums in single precision; the same tour from another city differs in its last bits:
# values that are so near to each other, relative to their size, are the same.
ROUNDING = 1e-6


def gap(values: Sequence[float] | Array, optima: Sequence[float]) -> Array:
    """The optimality gaps [I] of rewards [I] in percent: 100 (optimum − value) / |optimum|.

    Costs are rewards below zero, so 0 is optimal and higher is worse there as elsewhere. NaN where
    the optimum is 0. Within rounding of the optimum it is 0.
    """
    best = np.asarray(optima, dtype=float)
    found = (best - np.asarray(values, dtype=float)) / np.where(best == 0, np.nan, np.abs(best))
    rounded: Array = 100 * np.where(np.abs(found) <= ROUNDING, 0.0, found)
    return rounded
