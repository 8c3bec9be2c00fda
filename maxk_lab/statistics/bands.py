"""Simultaneous bands: intervals of several means that hold together, by a max-t bootstrap.

P prompts or instances, K means, R bootstrap draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from maxk_lab.statistics.estimates import Array

# Draws of a bootstrap, and numbers that it holds at a time.
DRAWS, _HELD = 2000, 2**24


@dataclass(frozen=True)
class Band:
    """The means [K] with a band that covers all of them together, and the prompts that it needs.

    `critical` is how many standard errors wide it is on each side. `needed` are the prompts at
    which the band would leave 0 if the mean were as measured: infinite for a mean of 0, and NaN
    where a mean has no error.
    """

    mean: Array
    low: Array
    high: Array
    needed: Array
    critical: float

    @property
    def settled(self) -> Array:
        """Return the sign of each mean where the band leaves 0, else 0."""
        sign: Array = np.where(self.low > 0, 1.0, np.where(self.high < 0, -1.0, 0.0))
        return sign


def difference_band(samples: Sequence[Array], level: float = 0.95, seed: int = 0) -> Band:
    """Return the band of the means of one sample [P, K], or of the first less those of the second.

    Rows are independent. The band is ± c standard errors, where c is the quantile of the largest
    |t| over K of bootstrap draws, each with its own errors (Romano and Wolf 2005). A mean whose
    values are all equal has no error: its band is the mean itself.
    """
    rng = np.random.default_rng(seed)
    signs = (1.0, -1.0)[: len(samples)]
    centres = [values.mean(0) for values in samples]
    mean = sum(sign * centre for sign, centre in zip(signs, centres, strict=True))
    error = np.sqrt(sum(values.var(0, ddof=1) / len(values) for values in samples))
    varies = error > 1e-12 * np.abs(mean)
    parts = [
        _draws(values[:, varies] - centre[varies], rng)
        for values, centre in zip(samples, centres, strict=True)
    ]
    largest = []
    for chunk in zip(*parts, strict=True):
        away = sum(sign * means for sign, (means, _) in zip(signs, chunk, strict=True))
        errors = np.sqrt(sum(variances for _, variances in chunk))
        with np.errstate(divide="ignore", invalid="ignore"):
            largest.append(np.abs(np.where(errors > 0, away / errors, np.inf * away)).max(1))
    t = np.nan_to_num(np.concatenate(largest), nan=0.0) if varies.any() else np.zeros(1)
    critical = float(np.quantile(t, level))
    half = np.where(varies, critical * error, 0.0)
    prompts = sum(map(len, samples)) / len(samples)
    with np.errstate(all="ignore"):
        needed = np.ceil(prompts * (half / np.abs(mean)) ** 2)
    return Band(mean, mean - half, mean + half, needed, critical)


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
    """Return increasing whole numbers in words, as `1 to 4, 8`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]} to {p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts)
