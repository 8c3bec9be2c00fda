"""The content of a finished record of the objective study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from maxk_lab.fields import Numbers, Recorded, check_lengths


class Metrics(Recorded):
    """The exact objective at the points of a parameter, and the place of its maximum between them.

    `optimum` and the value there are None where there is none, with the reason in `undefined`.
    """

    parameter: str
    points: list[float]
    values: Numbers
    optimum: float | None
    optimum_value: float | None
    undefined: dict[str, str] = Field(default_factory=dict)

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        along = cell["objective"]
        if self.parameter != along["parameter"]:
            raise ValueError(f"it is along {self.parameter}, not {along['parameter']}")
        check_lengths(along["points"], {"points": self.points, "values": self.values})
        if (self.optimum is None) != (self.optimum_value is None):
            raise ValueError("optimum and optimum_value are there together or not at all")
