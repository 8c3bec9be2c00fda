"""The curves of every cell of a training study, for a tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maxk_lab.studies.training import record as content
from maxk_lab.tracking.payload import ENDS, Curve, History, finished, merged

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

# One run per cell: its curves are those of the training.
ONE_RUN_PER = ("id",)
_AXES_OF_CURVES = ("step", "rollouts", "seconds")


def history(records: Sequence[Record]) -> History:
    """The log of a training against its steps, and Max@K on held-out instances against rollouts.

    Max@K has the ends of its interval beside it, and the seconds of training.
    """
    (record,) = records
    cell = finished(record, content.Metrics)
    if cell is None:
        return History()
    logged = {f"train/{name}": values for name, values in cell.log.series.items()}
    parts: list[tuple[float, Mapping[str, float | None]]] = [
        (
            step,
            {"step": step, "rollouts": step * cell.rollouts // cell.steps}
            | {name: values[i] for name, values in logged.items()},
        )
        for i, step in enumerate(cell.log.step)
    ]
    found = cell.evaluations
    seconds = record.timings.get("evaluations_seconds", [None] * len(found.step))
    for i, place in enumerate(zip(found.step, found.rollouts, seconds, strict=True)):
        values: dict[str, float | None] = dict(zip(_AXES_OF_CURVES, place, strict=True))
        for k, mean in found.means(i).items():
            values |= _with_ends(f"eval/max@{k}", dict(zip(ENDS, mean, strict=True)))
        parts.append((found.step[i], values))
    curves = {name: Curve(against="step") for name in logged}
    for k in found.ks:
        value, *ends = _with_ends(f"eval/max@{k}", dict.fromkeys(ENDS))
        curves[value] = Curve(against="rollouts", summary="max,last")
        beside = Curve(against="rollouts", summary="none", hidden=True)
        curves |= dict.fromkeys(ends, beside)
    return History(_AXES_OF_CURVES, curves, merged(parts))


def _with_ends(name: str, line: Mapping[str, float | None]) -> dict[str, float | None]:
    """A mean under this name, and the ends of its interval under their own below it."""
    return {name: line["value"], f"{name}/low": line["low"], f"{name}/high": line["high"]}
