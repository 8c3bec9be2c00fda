"""The content of a finished record of the gradient study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from maxk_lab.fields import Numbers, check_lengths
from maxk_lab.statistics.units import RecordedUnits


class Metrics(RecordedUnits):
    """The units of a cell, how it was measured, and its value of every measure.

    `against` tells what the bias is judged against: "exact", "reference:" with the name of the
    stand-in, or "complete" where every group was enumerated. `proxies` has the correlation of each
    proxy with ‖ψ‖² on every instance, `coefficients` those of a fitted baseline.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    against: Annotated[str, Field(pattern="^(exact|complete|reference:.+)$")]
    is_reference: bool = False
    undefined: dict[str, str] = Field(default_factory=dict)
    proxies: dict[str, Numbers] = Field(default_factory=dict)
    coefficients: list[float | None] | list[list[float] | None] | None = None

    @property
    def points(self) -> Mapping[str, float | None]:
        """The value of every measure by its name, None where it is undefined."""
        return self.__pydantic_extra__

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        check_lengths(cell["instances"], {"units": self.units.m2, **self.proxies})
        if (self.bias is None) != (self.against != "complete"):
            raise ValueError("bias is there where every group was enumerated, and nowhere else")
