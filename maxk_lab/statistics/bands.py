"""Simultaneous bands: intervals of several means that hold together, by a max-t bootstrap.

P prompts or instances, K means, R bootstrap draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from maxk_lab.statistics.estimates import FEWEST_EFFECTIVE, Array

# The number of bootstrap draws, and the most numbers in memory.
DRAWS, _HELD = 2000, 2**24


@dataclass(frozen=True)
class Band:
    """The means [K] with a simultaneous band, and the prompts that each mean needs.

    `critical` is the half-width of the band in standard errors. `needed` are the prompts at which
    the band would exclude 0 if the mean were as measured: infinite for a mean of 0, and NaN for a
    mean without band.
    """

    mean: Array
    low: Array
    high: Array
    needed: Array
    critical: float

    @property
    def settled(self) -> Array:
        """Return the sign of each mean if the band excludes 0, else 0."""
        sign: Array = np.where(self.low > 0, 1.0, np.where(self.high < 0, -1.0, 0.0))
        return sign


def difference_band(samples: Sequence[Array], level: float = 0.95, seed: int = 0) -> Band:
    """Return the band of the means of one sample [P, K], or of the difference of two samples.

    Rows are independent. The band is ± c standard errors, where c is the quantile of the largest
    |t| over K of bootstrap draws, each with its own errors (Romano and Wolf 2005). A mean has no
    band (NaN) if all values are equal, or if fewer than two effective rows of a sample carry its
    spread. The same holds for fewer than -ln(1 - level) rows: then about 1 - level of that sample's
    draws, or more, have no spread.
    """
    rng = np.random.default_rng(seed)
    signs = (1.0, -1.0)[: len(samples)]
    centred = [values - values.mean(0) for values in samples]
    mean = sum(sign * values.mean(0) for sign, values in zip(signs, samples, strict=True))
    error = np.sqrt(
        sum((deviation**2).sum(0) / len(deviation) / (len(deviation) - 1) for deviation in centred)
    )
    fewest = max(FEWEST_EFFECTIVE, -math.log(1 - level))
    carried = (error > 1e-12 * np.abs(mean)) & np.all(
        [_effective(deviation) >= fewest - 1e-9 for deviation in centred], 0
    )
    critical = 0.0
    if carried.any():
        parts = [_draws(deviation[:, carried], rng) for deviation in centred]
        largest = []
        for chunk in zip(*parts, strict=True):
            shift = sum(sign * means for sign, (means, _) in zip(signs, chunk, strict=True))
            errors = np.sqrt(sum(variances for _, variances in chunk))
            # The spread of a draw may be 0 up to rounding: use the error of the sample.
            errors = np.where(errors > 1e-6 * error[carried], errors, error[carried])
            largest.append(np.abs(shift / errors).max(1))
        critical = float(np.quantile(np.concatenate(largest), level))
    half = np.where(carried, critical * error, np.nan)
    prompts = sum(map(len, samples)) / len(samples)
    with np.errstate(all="ignore"):
        needed = np.ceil(prompts * (half / np.abs(mean)) ** 2)
    return Band(mean, mean - half, mean + half, needed, critical)


def _effective(deviation: Array) -> Array:
    """Return how many rows effectively carry the spread of each column; infinite without any."""
    squares = deviation**2
    with np.errstate(all="ignore"):
        number = squares.sum(0) ** 2 / (squares**2).sum(0)
    return np.where(np.isnan(number), np.inf, number)


def resampled(count: int, draws: int, rng: np.random.Generator | None = None) -> Array:
    """Return how often each of `count` units is in each bootstrap draw, [R, P]."""
    rng = np.random.default_rng(0) if rng is None else rng
    counts: Array = np.empty((draws, count))
    for row in counts:
        row[:] = np.bincount(rng.integers(count, size=count), minlength=count)
    return counts


def _draws(values: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yield chunks of means and their squared errors [R, K] of bootstrap draws of centred rows."""
    count = len(values)
    both = np.concatenate([values, values**2], axis=1)
    each = max(1, min(DRAWS, _HELD // count))
    for start in range(0, DRAWS, each):
        sums = resampled(count, min(each, DRAWS - start), rng) @ both / count
        means, squares = np.split(sums, 2, axis=1)
        yield means, np.maximum(squares - means**2, 0.0) / (count - 1)


def ranges(numbers: Sequence[int]) -> str:
    """Return increasing whole numbers as text, e.g. `1 to 4, 8`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]} to {p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts)
