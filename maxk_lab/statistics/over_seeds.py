"""Intervals of the means over seeds: Student's t; of a single seed, those over its instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.skewed_mean import skewed_mean

# The mean over the instances of a seed, with the ends of its interval over these.
Mean = tuple[float | None, float | None, float | None]


def over_seeds(values: Sequence[float], level: float) -> Interval:
    """Student's t interval of the mean of per-seed values.

    It tells what another seed may give, with other instances: seeds are independent and share
    nothing that is random, so their values are i.i.d.
    """
    found = np.asarray(values, dtype=float)
    if np.isnan(found).any():
        return undefined(level, "not defined in every seed")
    if len(found) < 2:
        return undefined(level, "one seed: no interval over seeds")
    mean, half = float(found.mean()), float(reach(found, level))
    return Interval(mean, mean - half, mean + half, level)


def reach(values: Any, level: float) -> Any:
    """Half the width of Student's t interval of the means of values [seeds, ...]."""
    seeds = len(values)
    return stats.t.isf((1 - level) / 2, seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)


def over_instances(values: Sequence[float], level: float) -> Interval:
    """The bootstrap over the instances of one seed, which says nothing of other training runs."""
    found = np.asarray(values, dtype=float)[None]
    if np.isnan(found).any():
        return undefined(level, "not defined on every instance")
    return skewed_mean(found[0], level, of="instances")


def of_instances(values: Sequence[Sequence[float]], level: float) -> Interval:
    """The mean of values [S, I]: Student's t over the S seeds, of one seed `over_instances`."""
    if len(values) == 1:
        return over_instances(values[0], level)
    return over_seeds([float(np.mean(of_seed)) for of_seed in values], level)


def of_means(means: Sequence[Mean], level: float) -> Interval:
    """The interval over the means of several seeds; of one seed, its own over instances."""
    if len(means) > 1:
        return over_seeds(floats([value for value, *_ in means]), level)
    value, low, high = floats(means[0])
    return Interval(value, low, high, level, "" if low <= high else "no interval over instances")


def floats(values: Sequence[float | None]) -> list[float]:
    """Numbers of a record; None is undefined, NaN."""
    return [float("nan") if value is None else float(value) for value in values]
