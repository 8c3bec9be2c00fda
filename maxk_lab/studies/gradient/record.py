"""The content of a finished record of the gradient study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from maxk_lab.fields import Numbers, check_lengths
from maxk_lab.statistics.moments import point_estimates
from maxk_lab.statistics.units import RecordedUnits, Units


class Metrics(RecordedUnits):
    """The units of a cell, how it was measured, and the value of every measure.

    `against` is the reference of the bias: "exact", "reference:" with the name of the reference
    estimator, or "complete" if every group was enumerated. Old records have `tested_from` instead
    of `carrying`. `proxies` has the correlation of each proxy with ‖ψ‖² on every instance,
    `coefficients` those of a fitted baseline. `cross_products` are, for each instance i, the mean
    over the other instances j of ⟨E ĝ_i, E ĝ_j⟩: exact if ∇J is exact, else unbiased. They are None
    for estimates biased in direction, forced starts, and behaviour policies without exact ∇J.
    `Units.between_instances` computes V_between from them.
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
    def shown(self) -> Mapping[str, Any]:
        """Return the value of every measure, computed from the units, as in a report."""
        return point_estimates(Units.of(self), {})

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the record cannot belong to the cell."""
        check_lengths(cell["instances"], {"units": self.units.m2, **self.proxies})
        if self.tested_from is not None:
            check_lengths(cell["instances"], {"tested_from": self.tested_from})
        if (self.bias is None) != (self.against != "complete"):
            raise ValueError("bias is there where every group was enumerated, and nowhere else")
