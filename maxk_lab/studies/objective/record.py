"""The content of a finished record of the objective study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from maxk_lab.fields import Number, Recorded, check_lengths


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

    @property
    def best(self) -> tuple[float, float]:
        """The parameter at the maximum and the objective there; both NaN where there is none."""
        if self.optimum is None or self.optimum_value is None:
            return math.nan, math.nan
        return self.optimum, self.optimum_value

    @property
    def reason(self) -> str:
        """Why there is no optimum; empty where there is one."""
        known = not math.isnan(self.best[0])
        return "" if known else self.undefined.get("optimum", "no optimum")

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        along = cell["objective"]
        check_lengths(along["points"], {"points": self.points, "values": self.values})
