"""The curves of a training cell as the history of a tracker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxk_lab.studies.training import record as content
from maxk_lab.tracking.payload import Curve, History

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record

_AXES_OF_CURVES = ("step", "rollouts", "seconds")
# Suffixes of a curve's name: the mean, and the ends of its interval.
_ENDS = ("", "/low", "/high")


def history(records: Sequence[Record]) -> History:
    """Return the curves of a training cell: the training log, and Max@K on held-out instances.

    Log curves have the step as axis. Max@K curves have rollouts as axis, and the low and high ends
    of the interval as further curves. A row has all values of one step.
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
            end_curve = Curve(against="rollouts", summary="none", hidden=True)
            curves[f"eval/max@{k}{end}"] = end_curve
    rows = [
        {name: value for name, value in lines[step].items() if value is not None}
        for step in sorted(lines)
    ]
    return History(_AXES_OF_CURVES, curves, rows)
