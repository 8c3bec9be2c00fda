"""Strata of resampling units, such as the instances of each seed, and the means over each.

Where all strata have as many units, one behind the other, they are the rows of a table: sums then
need no loop over them. They are added up in the same order, so that the results are the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

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
    def told_by(cls, stratum: Members) -> Strata:
        """Return the strata of units [U], each of which tells its own."""
        order = np.argsort(stratum, kind="stable")
        return cls(np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1))

    @cached_property
    def _size(self) -> int:
        """How many units each has where they form a table, else 0."""
        sizes = set(map(len, self))
        if len(sizes) != 1:
            return 0
        together = np.concatenate(self)
        return sizes.pop() if np.array_equal(together, np.arange(len(together))) else 0

    def table(self, values: Array) -> Array | None:
        """Return a view [..., S, n] of values [..., U], None where the strata form none."""
        size = self._size
        if not size or size * len(self) != values.shape[-1]:
            return None
        return values.reshape(*values.shape[:-1], len(self), size)

    def means(self, values: Array) -> Array:
        """Return the mean over the units of each stratum: [F, U] → [S, F]."""
        table = self.table(values)
        if table is None:
            return np.array([values[:, m].mean(axis=-1) for m in self])
        if len(values) == 1:
            alone: Array = table.mean(axis=-1).T
            return alone
        # Numpy adds up columns in this order, too, where it is asked for one stratum.
        found: Array = np.ascontiguousarray(np.moveaxis(table, 0, -1)).mean(axis=1)
        return found

    def centred(self, values: Array) -> Array:
        """Return values [F, U] less the mean of their stratum; 0 of units in none."""
        found = np.zeros_like(values)
        for m, mean in zip(self, self.means(values), strict=True):
            found[:, m] = values[:, m] - mean[:, None]
        return found

    def weights(self, count: int) -> Array:
        """Return the weight of each of so many units in the mean over strata of their means."""
        found = np.zeros(count)
        if self._size * len(self) == count > 0:
            found[:] = 1 / (len(self) * self._size)
            return found
        for m in self:
            found[m] = 1 / (len(self) * len(m))
        return found
