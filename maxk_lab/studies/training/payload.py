"""The curves of every cell of a training study, for a tracker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxk_lab.studies.training import record as content
from maxk_lab.tracking.payload import Curve, History

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record

_AXES_OF_CURVES = ("step", "rollouts", "seconds")
# Of a mean and its interval, below the name of the mean.
_ENDS = ("", "/low", "/high")


def history(records: Sequence[Record]) -> History:
    """The log of a training against its steps, and Max@K on held-out instances against rollouts.

    Max@K has the ends of its interval beside it, and the seconds of training.
    """
    (record,) = records
    if record.status != "done":
        return History()
    cell = content.Metrics.of(record)
    lines: dict[int, dict[str, float | None]] = {}
    logged = {f"train/{name}": values for name, values in cell.log.series.items()}
    for i, step in enumerate(cell.log.step):
        place = {"step": step, "rollouts": step * cell.rollouts // cell.steps}
        lines[step] = place | {name: values[i] for name, values in logged.items()}
    curves = {name: Curve(against="step") for name in logged}
    evaluations = cell.evaluations
    seconds = record.timings.get("evaluations_seconds", [None] * len(evaluations.step))
    for i, at in enumerate(zip(evaluations.step, evaluations.rollouts, seconds, strict=True)):
        line = lines.setdefault(evaluations.step[i], {})
        line |= dict(zip(_AXES_OF_CURVES, at, strict=True))
        for k, ends in evaluations.means(i).items():
            line |= {f"eval/max@{k}{end}": value for end, value in zip(_ENDS, ends, strict=True)}
    for k in evaluations.ks:
        curves[f"eval/max@{k}"] = Curve(against="rollouts", summary="max,last")
        for end in _ENDS[1:]:
            beside = Curve(against="rollouts", summary="none", hidden=True)
            curves[f"eval/max@{k}{end}"] = beside
    rows = [
        {name: value for name, value in lines[step].items() if value is not None}
        for step in sorted(lines)
    ]
    return History(_AXES_OF_CURVES, curves, rows)
