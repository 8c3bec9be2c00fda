"""The errors of means over instances, for two questions that are kept apart.

These instances: they stay and only their trajectories are random; errors come from independent
blocks of trajectories within each. Instances like these: they are random, too; errors come from how
much they differ. Means are over the instances of each stratum (a seed), then over strata, which
stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxk_lab.statistics.deviations import Deviation
from maxk_lab.statistics.measures import Question
from maxk_lab.statistics.spread import MORE_SKEWNESS, Spread
from maxk_lab.statistics.strata import Strata
from maxk_lab.statistics.units import Array, Units, stratified_mean

THESE: Question = "these instances"
LIKE_THESE: Question = "instances like these"
# The freedom of an instance's standard error where only that was kept is taken to be that of the
# blocks of a record: no more than this.
MOST_FREEDOM = 7


@dataclass(frozen=True)
class Errors:
    """The means [F] of several numbers, and what each instance adds to their errors.

    `parts` [F, U, B] are independent between instances and, but for their sum, between blocks: the
    covariance of the means is Σ parts partsᵀ. `thirds` [U] makes Σ parts³ the third cumulant to be
    corrected.
    `freedom` is that of an instance's own variance, or where instances are drawn that of all.
    """

    means: Array
    parts: Array
    thirds: Array
    freedom: float
    question: Question

    def powers(self, a: Array, b: Array) -> tuple[list[float], list[float]]:
        """The second and third cumulant of a − θ b, two combinations [F], as polynomials in θ.

        The coefficient of the highest power of θ comes first, as for `numpy.polyval`.
        """
        n, d = self._of(a), self._of(b)
        w = self.thirds[:, None]
        squares = [float(part.sum()) for part in (d * d, -2 * n * d, n * n)]
        cubes = (-w * d**3, 3 * w * n * d**2, -3 * w * n**2 * d, w * n**3)
        return squares, [float(part.sum()) for part in cubes]

    def spread(self, of: Array) -> Spread:
        """The spread of a linear combination `of` [F] of the means."""
        parts = self._of(of)
        by_unit = (parts**2).sum(1)
        variance = float(by_unit.sum())
        error = float(np.sqrt(variance))
        third = float(((parts**3).sum(1) * self.thirds).sum())
        return Spread(
            float(of @ self.means),
            error,
            third / error**3 if error > 0 else 0.0,
            self._freedom(parts, by_unit),
        )

    def effective_blocks(self, of: Array) -> float:
        """The effective number of blocks that carry the error of a combination `of` [F]."""
        return effective_number(self._of(of).ravel() ** 2)

    def _of(self, combination: Array) -> Array:
        return combined(combination, self.parts)

    def _freedom(self, parts: Array, by_unit: Array) -> float:
        """That of instances drawn anew, less where few carry it; else Welch-Satterthwaite's."""
        if self.question == LIKE_THESE:
            fourths = float((parts**4).sum())
            carrying = float(by_unit.sum()) ** 2 / fourths if fourths > 0 else np.inf
            return min(self.freedom, 2 * carrying)
        squares = float((by_unit**2).sum())
        return self.freedom * float(by_unit.sum()) ** 2 / squares if squares > 0 else self.freedom


def over_instances(values: Array, members: Sequence[NDArray[np.int64]]) -> Errors:
    """The errors of the means of values [F, U] where the instances are drawn anew.

    NaN where a stratum has one.
    """
    strata = Strata.of(members)
    count = np.rint(1 / (len(strata) * strata.weights(values.shape[1])))
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(count * (count - 1))
        parts = np.where(count > 1, strata.centred(values) / (len(strata) * root), np.nan)
        thirds = np.where(count > 2, MORE_SKEWNESS * root / (count - 2), 0.0)
    freedom = values.shape[1] - len(strata)
    return Errors(stratified_mean(values, strata), parts[..., None], thirds, freedom, LIKE_THESE)


def over_blocks(values: Array, by_block: Array, members: Sequence[NDArray[np.int64]]) -> Errors:
    """The errors of the means of values [F, U] where these instances stay.

    `by_block` [F, U, B] is how far the blocks of each lie from it.
    """
    blocks = by_block.shape[2]
    strata = Strata.of(members)
    parts = by_block * strata.weights(values.shape[1])[:, None]
    parts = parts / np.sqrt(blocks * (blocks - 1)) if blocks > 1 else np.full_like(parts, np.nan)
    factor = np.sqrt(blocks * (blocks - 1)) / (blocks - 2) if blocks > 2 else 0.0
    thirds = np.full(values.shape[1], factor)
    return Errors(stratified_mean(values, strata), parts, thirds, blocks - 1, THESE)


def of_deviation(deviation: Deviation, members: Sequence[NDArray[np.int64]]) -> Spread:
    """The spread of a deviation's mean over instances that stay."""
    weight = Strata.of(members).weights(len(deviation.mean))
    parts = weight**2 * deviation.variance
    variance = float(parts.sum())
    error = float(np.sqrt(variance))
    squares = float((parts**2).sum())
    return Spread(
        float((weight * deviation.mean).sum()),
        error,
        float((weight**3 * deviation.third).sum()) / error**3 if error > 0 else 0.0,
        deviation.freedom * (variance**2 / squares if squares > 0 else 1.0),
    )


def roughness_of(deviation: Deviation, members: Sequence[NDArray[np.int64]]) -> tuple[float, float]:
    """How well the spread of a deviation's mean is known, from so many blocks of such tails.

    The relative variance of its squared error, and the variance of its skewness.
    """
    parts = Strata.of(members).weights(len(deviation.mean)) ** 2 * deviation.variance
    total = float(parts.sum())
    known = np.maximum(np.minimum(deviation.freedom, 2 * deviation.carrying), 1.0)
    blocks = deviation.freedom + 1
    return (
        float((2 * parts**2 / known).sum()) / total**2,
        float((6 * parts**3 / (known * blocks)).sum()) / total**3,
    )


def of_numbers(
    values: Array,
    errors: Array | None,
    members: Sequence[NDArray[np.int64]],
    question: Question,
    freedom: float = MOST_FREEDOM,
) -> Spread:
    """The spread of the mean over `members` of numbers [U] with a standard error each.

    `freedom` is that of each error.
    """
    if question == LIKE_THESE:
        kept, places = one_behind_the_other(members)
        return over_instances(values[None, kept], places).spread(np.ones(1))
    strata = Strata.of(members)
    mean = float(stratified_mean(values[None], strata)[0])
    if errors is None:
        return Spread(mean, float("nan"), 0.0, float("nan"))
    kept = np.concatenate(strata)
    parts = (strata.weights(len(values))[kept] * errors[kept]) ** 2
    squares = float((parts**2).sum())
    together = freedom * (float(parts.sum()) ** 2 / squares if squares > 0 else 1.0)
    return Spread(mean, float(np.sqrt(parts.sum())), 0.0, together)


def one_behind_the_other(
    members: Sequence[NDArray[np.int64]],
) -> tuple[NDArray[np.int64], Strata]:
    """Return the units that there are in some stratum, and the strata of these alone."""
    kept, ends = np.concatenate(members), np.cumsum([len(m) for m in members])
    return kept, Strata(np.split(np.arange(len(kept)), ends[:-1]))


def moment_errors(units: Units, question: Question) -> Errors:
    """The errors of the means of the four moments; NaN where they cannot be had."""
    key = (moment_errors, question)
    if key not in units.kept:
        units.kept[key] = _moment_errors(units, question)
    found: Errors = units.kept[key]
    return found


def _moment_errors(units: Units, question: Question) -> Errors:
    columns, members = units.columns(), units.members()
    if question == LIKE_THESE:
        return over_instances(columns, members)
    unknown = np.full((*columns.shape, 2), np.nan if units.tolerance is None else 0.0)
    return over_blocks(columns, unknown if units.within is None else units.within, members)


def effective_number(values: Array, variance: Array | float = 0.0) -> float:
    """The number (Σw)²/Σw² of instances that carry a mean of values w [U], at most U.

    `variance` is that of each one's own noise, which would count as a difference between them. NaN
    where the mean is not positive, or so small that no number is its square.
    """
    total = float(values.sum())
    if not total > 0 or total**2 == 0:
        return float("nan")
    squares = max(float((values**2 - variance).sum()), total**2 / len(values))
    return total**2 / squares


def combined(combination: Array, columns: Array) -> Array:
    """The linear combination [F] of columns [F, ...]; those that it leaves out may be NaN."""
    used = combination != 0
    found: Array = np.tensordot(combination[used], columns[used], 1)
    return found
