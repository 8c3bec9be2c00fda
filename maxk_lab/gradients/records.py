"""The record of a cell, however its units were measured."""

from __future__ import annotations

from typing import Any

from maxk_lab.statistics.points import point_estimates
from maxk_lab.statistics.units import Units


def cell_record(units: Units, *, coefficients: list[Any] | None, **rest: Any) -> dict[str, Any]:
    """The metrics of a cell: its units, point estimates, fitted coefficients and the `rest`.

    A point estimate that is undefined is None, with its reason under `undefined`.
    """
    undefined: dict[str, str] = {}
    metrics = rest | {"undefined": undefined}
    if coefficients is not None:
        metrics["coefficients"] = coefficients
    return metrics | units.as_record() | point_estimates(units, undefined)
