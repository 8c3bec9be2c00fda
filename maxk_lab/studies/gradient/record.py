"""The content of a finished record of the gradient study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.fields import ROUNDING, Numbers, check_lengths, same
from maxk_lab.statistics.measures import measures_of
from maxk_lab.statistics.points import point_estimates
from maxk_lab.statistics.units import RecordedUnits, Units


class Metrics(RecordedUnits):
    """The units of a cell, how it was measured, and its value of every measure.

    `against` tells what the bias is judged against: "exact", "reference:" with the name of the
    stand-in, or "complete" where every group was enumerated. `tested_from` is the pool from which
    on an estimate of each instance is tested for a bias; 0 where the drawn trajectories decided for
    a test, None where against one. `proxies` has the correlation of each proxy with ‖ψ‖² on every
    instance, `coefficients` those of a fitted baseline.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    against: Annotated[str, Field(pattern="^(exact|complete|reference:.+)$")]
    is_reference: bool = False
    tested_from: Numbers | None = None
    undefined: dict[str, str] = Field(default_factory=dict)
    proxies: dict[str, Numbers] = Field(default_factory=dict)
    coefficients: list[float | None] | list[list[float] | None] | None = None

    @property
    def points(self) -> Mapping[str, float | None]:
        """The value of every measure by its name, None where it is undefined."""
        return self.__pydantic_extra__

    @property
    def shown(self) -> Mapping[str, Any]:
        """The value of every measure, computed anew from the units, as a report does."""
        return point_estimates(Units.of(self), {})

    def check_points(self) -> None:
        """Raise `ValueError` where a number is another than the units give.

        A quotient is as uncertain as its divisor is small, and is not looked at.
        """
        found = self.shown
        largest = max((abs(v) for v in (*self.units.m2, *self.units.truth) if v), default=0.0)
        for row in measures_of("gradient"):
            if row.source == "cell" or row.divides_by or row.name not in self.points:
                continue
            told, value = self.points[row.name], found.get(row.name)
            if not same(told, value, ROUNDING * largest):
                raise ValueError(f"{row.name} is {told}, where its units give {value}")

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        check_lengths(cell["instances"], {"units": self.units.m2, **self.proxies})
        if self.tested_from is not None:
            check_lengths(cell["instances"], {"tested_from": self.tested_from})
        if (self.bias is None) != (self.against != "complete"):
            raise ValueError("bias is there where every group was enumerated, and nowhere else")
        way, _, stand_in = self.against.partition(":")
        if stand_in and stand_in.rpartition(" with ")[2] not in BASELINES:
            raise ValueError(f"there is no {stand_in} to judge it against")
        if self.is_reference and not stand_in:
            raise ValueError(f"it is no reference: it is judged against {way}")
        drawn = range(2, cell["pool"] // cell["n"] + 1) if self.bias is None else (0,)
        if self.replicates not in drawn:
            raise ValueError(f"it cannot have {self.replicates} replicates")
