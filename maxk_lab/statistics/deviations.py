"""How far the mean estimate of every instance lies from its gradient, with errors within it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxk_lab.fields import Count, Numbers, Recorded, Sizes, check_lengths
from maxk_lab.statistics.estimates import Array, Spread, Stratum, stratum_weights

# Digits of errors, and of what is recorded with one.
DIGITS = 6
# An instance has a test of its own where the error has at least so many blocks behind it.
CARRYING = 4.0
_COLUMNS = ("mean", "variance", "third", "carrying")
_PARTS = ("along", "anywhere", "beside")


def rounded(values: Array) -> Array:
    """The numbers to `DIGITS` digits, each."""
    numbers = [float(f"{value:.{DIGITS}g}") for value in values.ravel().tolist()]
    return np.reshape(numbers, values.shape)


def plain(values: Array) -> Numbers:
    """Return the numbers for JSON, which has no NaN: None where undefined."""
    return [None if math.isnan(value) else value for value in values.tolist()]


class RecordedDeviation(Recorded):
    """A deviation as a record holds it; see `Deviation`."""

    mean: Numbers
    variance: Sizes
    third: Numbers
    carrying: Sizes
    freedom: Count


class RecordedDeviations(Recorded):
    """The deviations of a cell as a record holds them; see `Deviations`."""

    along: RecordedDeviation
    anywhere: RecordedDeviation
    beside: RecordedDeviation
    trusted: list[bool]

    def check_count(self, units: int) -> None:
        """Raise `ValueError` where these are not of so many units."""
        columns = {
            f"deviations.{part}.{name}": getattr(getattr(self, part), name)
            for part in _PARTS
            for name in _COLUMNS
        }
        check_lengths(units, {"trusted": self.trusted, **columns})


@dataclass(frozen=True)
class Deviation:
    """A number of every instance that is 0 where there is no bias, all [U].

    `mean` estimates it without bias from independent blocks of trajectories, `variance` and `third`
    are the second and third cumulant of that estimate, `carrying` the effective number of blocks
    behind the variance (Σd²)²/Σd⁴, and `freedom` its degrees of freedom.
    """

    mean: Array
    variance: Array
    third: Array
    carrying: Array
    freedom: int

    @classmethod
    def of(cls, mean: Array, by_block: Array) -> Deviation:
        """From the blocks' distances to the mean, [U, B]."""
        blocks = by_block.shape[1]
        squared = by_block * by_block
        squares, fourths = squared.sum(1), (squared * squared).sum(1)
        if blocks < 2 or np.isnan(by_block).any():
            nothing = np.full(len(mean), np.nan)
            return cls(mean, nothing, nothing, np.zeros(len(mean)), 0)
        # The unbiased third cumulant of one block is B Σd³ / ((B − 1)(B − 2)).
        thirds = np.zeros(len(mean))
        if blocks > 2:
            thirds = (squared * by_block).sum(1) / ((blocks - 1) * (blocks - 2) * blocks)
        return cls(
            mean,
            squares / (blocks * (blocks - 1)),
            thirds,
            np.divide(squares**2, fourths, out=np.zeros(len(mean)), where=fourths > 0),
            blocks - 1,
        )

    @classmethod
    def known(cls, mean: Array) -> Deviation:
        """Where it is known exactly: a test of one instance has nothing to tell."""
        nothing = np.zeros(len(mean))
        return cls(mean, nothing, nothing, nothing, sys.maxsize)

    @property
    def carried(self) -> NDArray[np.bool_]:
        """The instances whose error is not 0 and has enough blocks behind it."""
        positive: NDArray[np.bool_] = self.variance > 0
        return positive & (self.carrying >= min(CARRYING, self.freedom / 2))

    def p_values(self, *, two_sided: bool) -> Array:
        """The p-value of every instance; 1 where too few blocks carry its error to trust it."""
        p_values = np.ones(len(self.mean))
        for i in np.flatnonzero(self.carried):
            error = math.sqrt(self.variance[i])
            skewness = float(self.third[i]) / error**3
            spread = Spread(float(self.mean[i]), error, skewness, self.freedom)
            p_values[i] = spread.p_apart() if two_sided else spread.p_above()
        return p_values

    def spread(self, stratum: Stratum) -> Spread:
        """The spread of the mean over instances that stay."""
        weight = stratum_weights(stratum)
        parts = weight**2 * self.variance
        variance, squares = float(parts.sum()), float((parts**2).sum())
        error = math.sqrt(variance)
        return Spread(
            float((weight * self.mean).sum()),
            error,
            float((weight**3 * self.third).sum()) / error**3 if error > 0 else 0.0,
            self.freedom * (variance**2 / squares if squares > 0 else 1.0),
        )


@dataclass(frozen=True)
class Deviations:
    """The deviations that a verdict on bias rests on.

    `along` is ⟨E ĝ − ∇J, ∇J⟩, `anywhere` ‖E ĝ − ∇J‖², and `beside` ‖E ĝ − s∇J‖² with one factor s
    for all instances of a seed. `trusted` [U] are the instances that may have a verdict of their
    own: on the others an estimator that is unbiased by proof shows a bias, too, so trajectories
    that carry the gradient are missing from the pool.
    """

    along: Deviation
    anywhere: Deviation
    beside: Deviation
    trusted: NDArray[np.bool_]

    @classmethod
    def pool(cls, parts: Sequence[Deviations]) -> Deviations:
        """The instances of several seeds together."""

        def together(name: str) -> Deviation:
            some = [getattr(part, name) for part in parts]
            columns = {of: np.concatenate([getattr(one, of) for one in some]) for of in _COLUMNS}
            return Deviation(**columns, freedom=min(one.freedom for one in some))

        trusted = np.concatenate([part.trusted for part in parts])
        return cls(**{name: together(name) for name in _PARTS}, trusted=trusted)

    @classmethod
    def from_record(cls, recorded: RecordedDeviations) -> Deviations:
        """The deviations that a record holds."""

        def read(one: RecordedDeviation) -> Deviation:
            columns = {name: np.asarray(getattr(one, name), dtype=float) for name in _COLUMNS}
            return Deviation(**columns, freedom=one.freedom)

        parts = {name: read(getattr(recorded, name)) for name in _PARTS}
        return cls(**parts, trusted=np.asarray(recorded.trusted, dtype=bool))

    def as_record(self) -> dict[str, Any]:
        """Return what `from_record` reads."""
        record: dict[str, Any] = {}
        for part in _PARTS:
            one: Deviation = getattr(self, part)
            columns = {name: plain(rounded(getattr(one, name))) for name in _COLUMNS}
            record[part] = columns | {"freedom": one.freedom}
        return record | {"trusted": self.trusted.tolist()}
