"""Resampling units: the instances of a cell, or blocks of their pools, with their estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from maxk_lab.fields import Numbers, Recorded

Array = NDArray[np.float64]
FIELDS = ("m2", "mean_square", "inner", "truth")


class _Columns(Recorded):
    stratum: list[int]
    m2: Numbers
    mean_square: Numbers
    inner: Numbers
    truth: Numbers


class _Bias(Recorded):
    squared: list[float]
    off_direction: list[float]


class RecordedUnits(Recorded):
    """Return the units as a record holds them; `replicates` groups of n are drawn from each."""

    units: _Columns
    replicates: int
    measures: dict[str, Numbers] = Field(default_factory=dict)
    # Where every group was enumerated.
    bias: _Bias | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class Units:
    """Unbiased estimates of every unit, all [U]: the moments of ĝ, and further measures.

    The moments are E‖ĝ‖² (`m2`), ‖E ĝ‖² (`mean_square`), ⟨E ĝ, ∇J⟩ (`inner`) and ‖∇J‖² (`truth`).
    Where every group was enumerated the four are exact, and so are ‖E ĝ − ∇J‖² (`squared_bias`) and
    its least value over multiples of ∇J (`off_direction`), both [U]; a relative bias up to
    `tolerance` is then rounding. Elsewhere these are None. `measures` are NaN on units where they
    are undefined. `groups` is how many independent groups of n were drawn in all; None where they
    were enumerated.
    """

    stratum: NDArray[np.int64]
    m2: Array
    mean_square: Array
    inner: Array
    truth: Array
    squared_bias: Array | None = None
    off_direction: Array | None = None
    tolerance: float | None = None
    measures: Mapping[str, Array] = field(default_factory=dict)
    groups: int | None = None

    @classmethod
    def from_metrics(cls, metrics: Mapping[str, Any]) -> Units:
        """The units that the metrics of a finished cell carry."""
        return cls.of(RecordedUnits.model_validate(metrics))

    @classmethod
    def of(cls, recorded: RecordedUnits) -> Units:
        """The units of a record."""
        # None becomes NaN.
        m2, mean_square, inner, truth = (
            np.asarray(getattr(recorded.units, name), dtype=float) for name in FIELDS
        )
        found = cls(
            np.asarray(recorded.units.stratum, dtype=np.int64),
            m2,
            mean_square,
            inner,
            truth,
            measures={
                name: np.asarray(values, dtype=float) for name, values in recorded.measures.items()
            },
        )
        if recorded.bias is None:
            return replace(found, groups=len(m2) * recorded.replicates)
        return replace(
            found,
            squared_bias=np.asarray(recorded.bias.squared, dtype=float),
            off_direction=np.asarray(recorded.bias.off_direction, dtype=float),
            tolerance=recorded.tolerance,
        )

    def as_record(self) -> dict[str, Any]:
        """The units as a record holds them, for `of`; a measure is None where undefined."""
        found: dict[str, Any] = {
            "units": {"stratum": self.stratum.tolist()}
            | {name: getattr(self, name).tolist() for name in FIELDS},
            "measures": {
                name: [None if math.isnan(value) else value for value in values.tolist()]
                for name, values in self.measures.items()
            },
        }
        if self.squared_bias is None or self.off_direction is None:
            return found
        return found | {
            "bias": {
                "squared": self.squared_bias.tolist(),
                "off_direction": self.off_direction.tolist(),
            },
            "tolerance": self.tolerance,
        }

    @staticmethod
    def pool(parts: Sequence[Units]) -> Units:
        """Units of several seeds together; strata of different parts stay apart.

        Enumerated only if all parts are; a measure is there if all parts have it.
        """
        strata, offset = [], 0
        for part in parts:
            strata.append(part.stratum + offset)
            offset += int(part.stratum.max()) + 1
        m2, mean_square, inner, truth = np.concatenate([part.columns() for part in parts], axis=1)
        measures = {
            name: np.concatenate([part.measures[name] for part in parts])
            for name in parts[0].measures
            if all(name in part.measures for part in parts)
        }
        pooled = Units(np.concatenate(strata), m2, mean_square, inner, truth, measures=measures)
        tolerances = [part.tolerance for part in parts if part.tolerance is not None]
        if len(tolerances) < len(parts):
            drawn = [part.groups for part in parts if part.groups is not None]
            return replace(pooled, groups=sum(drawn)) if len(drawn) == len(parts) else pooled
        return replace(
            pooled,
            squared_bias=np.concatenate([part.squared_bias for part in parts]),
            off_direction=np.concatenate([part.off_direction for part in parts]),
            tolerance=max(tolerances),
        )

    def columns(self) -> Array:
        """[4, U] in the order of `FIELDS`."""
        return np.stack([getattr(self, name) for name in FIELDS])

    def members(self) -> list[NDArray[np.int64]]:
        """The unit indices of each stratum."""
        return [np.flatnonzero(self.stratum == s) for s in np.unique(self.stratum)]
