"""The numbers of a row of objectives, which are exact."""

from __future__ import annotations

from maxk_lab.report.rows import Effect, Measured
from maxk_lab.statistics.intervals import exactly, undefined
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.objective.rows import ObjectiveRow


def measured(row: ObjectiveRow) -> dict[str, Measured]:
    """The optimum and the value there; undefined where there is not one of all seeds."""
    reason = row.no_optimum
    values = (None, None) if reason else (row.distinct[0].optimum, row.distinct[0].best)
    return {
        measure.name: Measured(
            undefined(1.0, reason) if value is None else exactly(value),
            measure.unit,
            measure.better,
        )
        for measure, value in zip(
            map(MEASURES.get, ("optimum", "optimum_value")), values, strict=True
        )
    }


def against(row: ObjectiveRow, other: ObjectiveRow, name: str, level: float) -> Effect | None:
    """None: exact numbers need no pairs."""
    return None
