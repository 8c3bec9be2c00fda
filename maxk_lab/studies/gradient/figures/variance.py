"""The figure of variances: how many times the least among the unbiased each method has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.report.document import UNDEFINED
from maxk_lab.report.drawing.axes import few_decades, logarithmic
from maxk_lab.report.drawing.style import bars, finish, shades
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.gradient.figures.strips import offsets, shown_sizes, strips
from maxk_lab.studies.gradient.pool import GradientKey, GradientRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Mapping[GradientKey, Interval]

_BEST = "told apart as the least"
_GREY = "#666666"


def over_least(rows: Sequence[GradientRow]) -> dict[GradientKey, Interval]:
    """The variance of each row over the least of its group, as far as known; of the least 1."""
    groups = {row.key.group for row in rows if row.over_least is not None}
    found: dict[GradientKey, Interval] = {}
    for row in rows:
        if row.over_least is not None:
            found[row.key] = row.over_least.mean
        elif row.units is not None and row.key.group in groups:
            found[row.key] = Interval(1.0, 1.0, 1.0, 0.95)
    return {key: value for key, value in found.items() if _drawable(value)}


def relative(rows: Sequence[GradientRow]) -> dict[GradientKey, Interval]:
    """The relative variance of each row, as far as known: methods without baselines have a least
    of nothing, and this has no scale.
    """
    found = {row.key: row.intervals["relative_variance"] for row in rows}
    return {key: value for key, value in found.items() if _drawable(value)}


def variance_figure(
    rows: Sequence[GradientRow], values: Values, title: str, axis: str, level: float
) -> Figure:
    """A line per method with a mark for each n, in a panel per K and place.

    The axis is logarithmic. A method that was planned and has no value has a dash; one whose
    variance is told apart from all others as the least, corrected for all comparisons, a ring.
    """
    sizes = shown_sizes(rows)
    frame = strips(rows, 0.17)
    looks = shades(len(sizes))
    shifts = dict(zip(sizes, offsets(len(sizes)), strict=True))
    limits = _limits([values[row.key] for row in rows if row.key in values])
    logarithmic(frame.axes[0][0], "x")
    frame.axes[0][0].set_xlim(*limits)
    few_decades(frame.axes[0][0], limits)
    for panel, members in frame.members():
        if axis != RELATIVE:
            panel.axvline(1.0, color="black", linewidth=0.8, zorder=1)
        _dashes(panel, members, values)
        marks = [(row, y + shifts[row.key.n]) for row, y in members if row.key.n in shifts]
        for n, look in zip(sizes, looks, strict=True):
            of_n = [(row, y) for row, y in marks if row.key.n == n]
            _marks(panel, of_n, values, look, f"n = {n}", limits)
        _rings(panel, marks, values)
    for panel in frame.axes[-1]:
        panel.set_xlabel(axis)
    finish(frame.figure, frame.axes, f"{title}\nbars: {level:.0%} intervals")
    return frame.figure


OVER_LEAST = "times the least"
RELATIVE = "relative variance"


def _drawable(value: Interval) -> bool:
    return value.known and math.isfinite(value.value) and value.value > 0


def _limits(values: Sequence[Interval]) -> tuple[float, float]:
    """The ends of the axis: all points, and of the bars what is not far beyond."""
    points = [value.value for value in values]
    low, high = min(points), max(points)
    reach = max(3.0, high / low) ** 0.25
    ends = [end for value in values for end in (value.low, value.high) if 0 < end < math.inf]
    low, high = max(low / reach, min([low, *ends])), min(high * reach, max([high, *ends]))
    air = max(1.15, (high / low) ** 0.05)
    return low / air, high * air


def _dashes(axes: Axes, members: Sequence[tuple[GradientRow, int]], values: Values) -> None:
    """A dash at the left for the lines with a value missing, which says at how many n it is."""
    for y, found in grouped(members, lambda member: member[1]).items():
        missing = [row.key.n for row, _ in found if row.key not in values]
        if missing:
            some = f" n = {', '.join(map(str, missing))}" if len(missing) < len(found) else ""
            axes.text(
                0.99,
                y,
                f"{UNDEFINED}{some}",
                transform=axes.get_yaxis_transform(),
                ha="right",
                va="center",
                fontsize=5.5,
                color=_GREY,
            )


def _marks(
    axes: Axes,
    marks: Sequence[tuple[GradientRow, float]],
    values: Values,
    look: Mapping[str, Any],
    label: str,
    limits: tuple[float, float],
) -> None:
    known = [(row, y, values[row.key]) for row, y in marks if row.key in values]
    if not known:
        return
    found = [value for *_, value in known]
    axes.errorbar(
        [value.value for value in found],
        [y for _, y, _ in known],
        xerr=np.minimum(bars(found), 10 * limits[1]),
        linestyle="none",
        markersize=3.4,
        linewidth=1.0,
        label=label,
        **look,
    )


def _rings(axes: Axes, marks: Sequence[tuple[GradientRow, float]], values: Values) -> None:
    """A ring around each mark of a variance that is told apart as the least."""
    best = [(values[row.key].value, y) for row, y in marks if row.best and row.key in values]
    if best:
        axes.plot(
            [x for x, _ in best],
            [y for _, y in best],
            linestyle="none",
            marker="o",
            markersize=7,
            markerfacecolor="none",
            markeredgecolor="#D55E00",
            markeredgewidth=1.1,
            label=_BEST,
            zorder=4,
        )
