"""The content of a finished record of the objective study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from maxk_lab.fields import ROUNDING, Number, Recorded, check_lengths, check_same, slack_of


class Metrics(Recorded):
    """The exact objective at the points of a parameter, and the place of its maximum between them.

    `optimum` and the value there are None where there is none, with the reason in `undefined`.
    """

    parameter: str
    points: list[Number]
    values: list[Number]
    optimum: Number | None
    optimum_value: Number | None
    undefined: dict[str, str] = Field(default_factory=dict)

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        along = cell["objective"]
        if self.parameter != along["parameter"]:
            raise ValueError(f"it is along {self.parameter}, not {along['parameter']}")
        check_lengths(along["points"], {"points": self.points, "values": self.values})
        if (self.optimum is None) != (self.optimum_value is None):
            raise ValueError("optimum and optimum_value are there together or not at all")
        start, step = along["from"], (along["to"] - along["from"]) / (along["points"] - 1)
        for number, point in enumerate(self.points):
            check_same(f"points.{number}", point, start + number * step, ROUNDING * abs(step))
        if (self.optimum is None) != ("optimum" in self.undefined):
            raise ValueError("there is an optimum, or the reason why there is none")
        if self.optimum is None or self.optimum_value is None:
            return
        if not min(self.points) <= self.optimum <= max(self.points):
            raise ValueError(f"the optimum, {self.optimum}, lies beyond the points")
        if self.optimum_value < max(self.values) - slack_of(self.values):
            raise ValueError(f"optimum_value, {self.optimum_value}, is not the largest value")
