"""The line figures that a sweep file declares: one measure against one thing that it varies."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.report.drawing.axes import logarithmic, number_axis
from maxk_lab.report.drawing.style import bars, finish, legend_width, panels
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.figures.curves import (
    Line,
    lines_of,
    told,
    value_of,
    values_of,
    word,
)
from maxk_lab.studies.gradient.pool import DISTANCE, GradientRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from maxk_lab.sweeps.spec.figures import Figure as Declared

_WORDS = {
    "n": "samples n",
    "k": "K",
    "stage": "steps of warm-up",
    DISTANCE: "distance of the sampling policy",
}
_COLUMNS = 3
# The lines of other panels, behind.
_BEHIND = "#d2d2d2"
_OTHERS = "those of the other panels"
_LEGEND_LINES = 7
# Of words below one of several panels.
_LETTERS = 20
_WIDEST = 11.0


def declared_figure(
    rows: Sequence[GradientRow], declared: Declared, title: str, level: float
) -> Figure | None:
    """The figure of one environment; None where no row has the measure.

    Of many lines those of one estimator, or of whatever divides them best, have panels of their
    own, with the others behind in grey. Rows that were derived biased are dashed and say so. Bars
    are intervals; a measure that is exact for its instances and has none is a bare point. A bias
    that is proven to be none is rounding: on a logarithmic axis it stands at the lower edge, where
    it does not squeeze the others.
    """
    known = drawable(rows, declared)
    if not known:
        return None
    lines = lines_of(rows, declared)
    parts, shown = list(dict.fromkeys(line.part for line in lines)), _shown(known, declared)
    grid = [(part, value) for part in parts for value in shown]
    # With parts a row for each; else the panels fill rows of a few.
    columns = len(shown) if len(parts) > 1 else min(len(shown), _COLUMNS)
    count = -(-len(grid) // columns)
    named = [line.label for line in lines]
    wide = min(_WIDEST, legend_width(list(dict.fromkeys(named)), _LEGEND_LINES))
    size = (max(4.6, 0.9 + 1.75 * columns, wide), 1.2 + (2.1 if count > 1 else 2.7) * count)
    figure, axes = panels(count, columns, size)
    positions = sorted({float(value_of(row, declared.against)) for row in known})
    edges = _edges(known, declared)
    log = number_axis(axes[0][0], positions, most=9 if columns == 1 else 5)
    if declared.scale == "log":
        logarithmic(axes[0][0], "y")
    for panel, (part, value) in zip(axes.flat, grid, strict=False):
        here = [row for row in known if _in_panel(row, declared, value)]
        of_value = "" if declared.panels is None else told(declared.panels, value)
        panel.set_title(textwrap.fill(", ".join(filter(None, (part, of_value))), 24), fontsize=8.5)
        for index, line in enumerate(lines):
            points = _points(here, line, declared, edges)
            shift = _shift(index, len(lines), positions, log)
            if line.part == part:
                _draw(panel, points, line, shift, edges[1])
            elif points:
                panel.plot(*_curve(points), color=_BEHIND, linewidth=0.8, zorder=1, label=_OTHERS)
    for panel in axes.flat[len(grid) :]:
        panel.set_axis_off()
    along = _WORDS.get(declared.against, word(declared.against))
    along = textwrap.fill(along, _LETTERS) if columns > 1 else along
    for panel in axes.flat[max(0, len(grid) - columns) : len(grid)]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel(along)
    for line_of_axes in axes:
        line_of_axes[0].set_ylabel(MEASURES.get(declared.metric).heading)
    finish(figure, axes, f"{title}\nbars: {level:.0%} intervals")
    return figure


def drawable(rows: Sequence[GradientRow], declared: Declared) -> list[GradientRow]:
    """The rows that have a point in the figure."""
    return [row for row in rows if _drawable(row, declared)]


def _in_panel(row: GradientRow, declared: Declared, value: Any) -> bool:
    return declared.panels is None or bool(value_of(row, declared.panels) == value)


def _shown(rows: Sequence[GradientRow], declared: Declared) -> list[Any]:
    """The values that have panels; one of nothing where the figure asks for no panels."""
    if declared.panels is None:
        return [None]
    return list(dict.fromkeys(value_of(row, declared.panels) for row in rows))


def value_in(row: GradientRow, declared: Declared) -> Interval:
    """The value of the row that the figure shows, with its interval if it has one."""
    metric = declared.metric
    if metric in row.intervals:
        return row.intervals[metric]
    if metric in row.anatomy:
        # Exact for its instances, and so without an interval.
        return Interval(row.anatomy[metric], float("nan"), float("nan"), 0.95)
    return undefined(0.95, "not measured")


def _drawable(row: GradientRow, declared: Declared) -> bool:
    found = value_in(row, declared)
    if (
        row.units is None
        or not math.isfinite(found.value)
        or value_of(row, declared.against) is None
    ):
        return False
    return (row.enumerated or found.known) and (declared.scale != "log" or found.value > 0)


def is_rounding(row: GradientRow, declared: Declared) -> bool:
    """Whether the row is proven to have no bias, and its number is rounding."""
    return (
        declared.metric == "squared_bias"
        and declared.scale == "log"
        and row.bias.verdict == "unbiased"
    )


def _edges(rows: Sequence[GradientRow], declared: Declared) -> tuple[float, float]:
    """The place of what is nothing, a tenth of the least that is something, and the end of bars."""
    known = [value_in(row, declared) for row in rows if not is_rounding(row, declared)]
    low = min((found.value for found in known), default=1.0)
    high = max(
        (end for found in known for end in (found.value, found.high) if math.isfinite(end)),
        default=1.0,
    )
    return low / 10, 2 * high


def _points(
    rows: Sequence[GradientRow], line: Line, declared: Declared, edges: tuple[float, float]
) -> dict[float, Interval]:
    """The points of a line by their place, one for each: ratios have one for all estimators."""
    low = edges[0]
    found = {
        float(value_of(row, declared.against)): Interval(low, low, low, 1.0)
        if is_rounding(row, declared)
        else value_in(row, declared)
        for row in rows
        if values_of(row, declared) == line.values
    }
    return dict(sorted(found.items()))


def _curve(points: Mapping[float, Interval]) -> tuple[list[float], list[float]]:
    return list(points), [value.value for value in points.values()]


def _draw(
    axes: Axes,
    points: Mapping[float, Interval],
    line: Line,
    shift: tuple[float, float],
    high: float,
) -> None:
    at, values = _curve(points)
    factor, offset = shift
    axes.errorbar(
        [place * factor + offset for place in at],
        values,
        # Without the bars that are unknown.
        yerr=np.nan_to_num(np.minimum(bars(list(points.values())), high), nan=0.0),
        **line.style,
        linestyle="-" if line.unbiased else "--",
        markersize=3.8,
        linewidth=1.15,
        elinewidth=0.9,
        capsize=2,
        label=line.label,
    )


def _shift(index: int, of: int, positions: Sequence[float], log: bool) -> tuple[float, float]:
    """(factor, offset) that keeps bars of different lines apart, far less than points are."""
    step = 0.0 if of == 1 else index / (of - 1) - 0.5
    if log:
        near = min((b / a for a, b in pairwise(positions)), default=2.0)
        return float(near ** (0.12 * step)), 0.0
    near = min((b - a for a, b in pairwise(positions)), default=1.0)
    return 1.0, 0.12 * near * step
