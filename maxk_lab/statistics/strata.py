"""Strata of resampling units, such as the instances of each seed, and the means over each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Members = NDArray[np.int64]


class Strata(tuple[Members, ...]):
    """The numbers of the units of each stratum."""

    @classmethod
    def of(cls, members: Iterable[Members]) -> Strata:
        """Return strata as such."""
        return members if isinstance(members, Strata) else cls(members)

    @classmethod
    def of_labels(cls, stratum: Members) -> Strata:
        """Return the strata of units [U], each labelled by its own."""
        order = np.argsort(stratum, kind="stable")
        return cls(np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1))

    def means(self, values: Array) -> Array:
        """Return the mean over the units of each stratum: [F, U] → [S, F]."""
        return np.array([values[:, m].mean(axis=-1) for m in self])

    def centred(self, values: Array) -> Array:
        """Return values [F, U] less the mean of their stratum; 0 of units in none."""
        away = np.zeros_like(values)
        for m, mean in zip(self, self.means(values), strict=True):
            away[:, m] = values[:, m] - mean[:, None]
        return away

    def weights(self, count: int) -> Array:
        """Return the weight of each of so many units in the mean over strata of their means."""
        weights = np.zeros(count)
        for m in self:
            weights[m] = 1 / (len(self) * len(m))
        return weights
