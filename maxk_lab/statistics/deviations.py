"""The deviation of every instance's mean estimate from its gradient, with errors."""

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

# Recorded digits of errors, and of numbers with an error.
DIGITS = 6
# Tuned: with fewer draws, a mean and its error are both too small. With 16, 5 of 12 reports on a
# trained toy LLM called an unbiased estimator biased, with 64 none.
LEAST_CARRYING = 64.0
_COLUMNS = ("mean", "variance", "third", "carrying")
_PARTS = ("along", "anywhere", "beside")


def rounded(values: Array) -> Array:
    """Return each number to `DIGITS` digits."""
    numbers = [float(f"{value:.{DIGITS}g}") for value in values.ravel().tolist()]
    return np.reshape(numbers, values.shape)


def as_numbers(values: Array) -> Numbers:
    """Return the numbers for JSON: an undefined number is None."""
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

    def check_count(self, units: int) -> None:
        """Raise `ValueError` unless there are this many units."""
        columns = {
            f"deviations.{which}.{name}": getattr(getattr(self, which), name)
            for which in _PARTS
            for name in _COLUMNS
        }
        check_lengths(units, columns)


@dataclass(frozen=True)
class Deviation:
    """A number of every instance that is 0 without bias, all [U].

    `mean` estimates it without bias from independent blocks of trajectories. `variance` and `third`
    are the second and third cumulant of the estimate. `carrying` is the effective number of blocks
    behind the variance, (Σd²)²/Σd⁴, and `freedom` its degrees of freedom.
    """

    mean: Array
    variance: Array
    third: Array
    carrying: Array
    freedom: int

    @classmethod
    def of(cls, mean: Array, by_block: Array) -> Deviation:
        """Return the deviation from the blocks' distances to the mean, [U, B]."""
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
    def exact(cls, mean: Array) -> Deviation:
        """Return a deviation that is known exactly."""
        nothing = np.zeros(len(mean))
        return cls(mean, nothing, nothing, nothing, sys.maxsize)

    def only(self, tested: NDArray[np.bool_]) -> Deviation:
        """Return the deviation, with value and error 0 on untested instances."""
        columns = {name: np.where(tested, getattr(self, name), 0.0) for name in _COLUMNS}
        return Deviation(**columns, freedom=self.freedom)

    def spread(self, stratum: Stratum) -> Spread:
        """Return the spread of the mean over fixed instances."""
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
    """The deviations for a verdict on bias.

    `along` is ⟨E ĝ − ∇J, ∇J⟩, `anywhere` ‖E ĝ − ∇J‖², and `beside` ‖E ĝ − s∇J‖² with one factor s
    for all instances of a seed.
    """

    along: Deviation
    anywhere: Deviation
    beside: Deviation

    def only(self, tested: NDArray[np.bool_]) -> Deviations:
        """Return the deviations of the tested instances; untested instances contribute 0."""
        return Deviations(**{name: getattr(self, name).only(tested) for name in _PARTS})

    @classmethod
    def pool(cls, parts: Sequence[Deviations]) -> Deviations:
        """Return the instances of several seeds together."""

        def together(name: str) -> Deviation:
            several = [getattr(deviations, name) for deviations in parts]
            columns = {
                of: np.concatenate([getattr(each, of) for each in several]) for of in _COLUMNS
            }
            return Deviation(**columns, freedom=min(each.freedom for each in several))

        return cls(**{name: together(name) for name in _PARTS})

    @classmethod
    def from_record(cls, recorded: RecordedDeviations) -> Deviations:
        """Return the deviations that a record holds."""

        def read(deviation: RecordedDeviation) -> Deviation:
            columns = {name: np.asarray(getattr(deviation, name), dtype=float) for name in _COLUMNS}
            return Deviation(**columns, freedom=deviation.freedom)

        return cls(**{name: read(getattr(recorded, name)) for name in _PARTS})

    def as_record(self) -> dict[str, Any]:
        """Return what `from_record` reads."""
        record: dict[str, Any] = {}
        for name in _PARTS:
            deviation: Deviation = getattr(self, name)
            columns = {of: as_numbers(rounded(getattr(deviation, of))) for of in _COLUMNS}
            record[name] = columns | {"freedom": deviation.freedom}
        return record


def instances_to_test(size: Array, carrying: Array) -> NDArray[np.bool_]:
    """Return the mask of the tested instances [U]; none if too few draws carry their mean.

    An instance adds `size` to the mean, and `carrying` draws are expected to carry it. The mean
    over some instances is carried by (Σ size)² / Σ (size² / carrying) draws (Kish). The tested
    instances maximise this number; none is tested if it is below `LEAST_CARRYING`.
    """
    tested = np.zeros(len(size), dtype=bool)
    size = size / max(float(size.max(initial=0.0)), 1e-300)
    usable = np.flatnonzero(carrying > 0)
    order = usable[np.argsort(size[usable] / carrying[usable], kind="stable")]
    sums, noises = size[order].cumsum(), (size[order] ** 2 / carrying[order]).cumsum()
    draws = np.divide(sums**2, noises, out=np.full(len(order), np.inf), where=noises > 0)
    if len(order) and draws.max() >= LEAST_CARRYING:
        tested[order[: int(np.flatnonzero(draws == draws.max())[-1]) + 1]] = True
    return tested
