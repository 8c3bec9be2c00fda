"""Resampling units: what a cell measured on each instance, or on each block of an instance's pool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FIELDS = ("m2", "mean_square", "inner", "truth")


@dataclass(frozen=True)
class Units:
    """Unbiased per-unit estimates, all [U]: E‖ĝ‖² (`m2`), ‖E ĝ‖² (`mean_square`), ⟨E ĝ, ∇J⟩ (`inner`), ‖∇J‖² (`truth`).

    Where every group was enumerated the four are exact, and so are ‖E ĝ − ∇J‖² (`squared_bias`) and its least value over multiples
    of ∇J (`off_direction`), both [U]; a relative bias up to `tolerance` is then rounding. Elsewhere these are None. `measures` are
    further numbers by name, [U] each, NaN on units where they are undefined. `groups` is how many independent groups of n were
    drawn in all; None where they were enumerated.
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
        """The units a finished record carries."""
        units, bias = metrics["units"], metrics.get("bias")
        m2, mean_square, inner, truth = (np.asarray(units[name], dtype=float) for name in FIELDS)
        # None becomes NaN.
        measures = {
            name: np.asarray(values, dtype=float)
            for name, values in metrics.get("measures", {}).items()
        }
        found = cls(
            np.asarray(units["stratum"], dtype=np.int64),
            m2,
            mean_square,
            inner,
            truth,
            measures=measures,
        )
        if bias is None:
            return replace(found, groups=len(m2) * int(metrics["replicates"]))
        return replace(
            found,
            squared_bias=np.asarray(bias["squared"], dtype=float),
            off_direction=np.asarray(bias["off_direction"], dtype=float),
            tolerance=float(metrics["tolerance"]),
        )

    def as_record(self) -> dict[str, Any]:
        """The units as a record carries them, for `from_metrics`; a measure is None where undefined."""
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
            drawn = [part.groups for part in parts]
            return pooled if None in drawn else replace(pooled, groups=sum(map(int, drawn)))  # type: ignore[arg-type]
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
