"""The figure of an objective study: each objective along the parameter, its maximum marked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.report.document import exact
from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.drawing.style import COLOURS, finish, panels
from maxk_lab.report.model import Summary
from maxk_lab.report.tables import Pooled, grouped
from maxk_lab.studies.objective.pool import ObjectiveRow

# Lines of one panel; panels beside each other.
MOST = 6
_COLUMNS = 2

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figures(found: Pooled[ObjectiveRow], summary: Summary) -> Iterator[Picture]:
    """A figure for each environment and parameter."""
    rows = [row for row in found.rows if row.curves]
    places = grouped(rows, lambda row: (row.key.environment, row.parameter))
    for (environment, _), members in places.items():
        where = f"{_along(members)}: {members[0].key.plain or environment}"
        title = f"Exact objectives along the {where}"
        yield Picture("objective", objective_figure(members, title), title, _caption(members))


def objective_figure(rows: Sequence[ObjectiveRow], title: str) -> Figure:
    """One line per objective (and seed, where the seeds differ), from light to dark as K grows.

    Where there are many, each estimator has a panel. The legend has the optima.
    """
    estimators = list(dict.fromkeys(row.key.estimator for row in rows))
    parts = [[name] for name in estimators] if len(rows) > MOST else [estimators]
    columns = min(len(parts), _COLUMNS)
    lines = -(-len(parts) // columns)
    size = (
        5.4 if columns == 1 else 1.0 + 2.2 * columns,
        1.0 + (2.8 if lines == 1 else 2.1) * lines,
    )
    figure, axes = panels(lines, columns, size)
    for panel, part in zip(axes.flat, parts, strict=False):
        members = [row for row in rows if row.key.estimator in part]
        for row, colour in zip(members, _colours(members), strict=True):
            _line(panel, row, colour, _along(rows), estimators)
        panel.set_title(part[0] if len(parts) > 1 else "")
        panel.margins(x=0.01)
    for panel in axes.flat[len(parts) :]:
        panel.set_axis_off()
    for panel in axes.flat[max(0, len(parts) - columns) : len(parts)]:
        panel.set_xlabel(_along(rows))
        panel.tick_params(labelbottom=True)
    for line_of_axes in axes:
        line_of_axes[0].set_ylabel("exact objective")
    finish(figure, axes, f"{title}\ndots: the optimum of each")
    return figure


def _along(rows: Sequence[ObjectiveRow]) -> str:
    return rows[0].parameter.rpartition(".")[2].replace("_", " ")


def _caption(rows: Sequence[ObjectiveRow]) -> str:
    known = [
        (row, curve.optimum)
        for row in rows
        for curve in row.distinct
        if not math.isnan(curve.optimum)
    ]
    said = (
        f"Each line is an objective as the {_along(rows)} of the policy changes, computed exactly "
        "and so without intervals; a dot is where it is largest."
    )
    if not known:
        return said
    (first, low), (last, high) = (pick(known, key=lambda one: one[1]) for pick in (min, max))
    return f"{said} Here the best {_along(rows)} is {exact(low)} for {first.key.objective}" + (
        "." if low == high else f" and up to {exact(high)} for {last.key.objective}."
    )


def _colours(rows: Sequence[ObjectiveRow]) -> list[Any]:
    """A scale of colour where only K varies: it has an order, names have none."""
    import matplotlib as mpl

    if len({row.key.estimator for row in rows}) > 1:
        return [COLOURS[index % len(COLOURS)] for index in range(len(rows))]
    ordered = sorted({row.key.k for row in rows})
    scale = mpl.colormaps["viridis_r"]
    # The lightest end is hard to see on white.
    return [
        scale(0.15 + 0.85 * ordered.index(row.key.k) / max(1, len(ordered) - 1)) for row in rows
    ]


def _line(
    axes: Axes, row: ObjectiveRow, colour: Any, parameter: str, estimators: Sequence[str]
) -> None:
    named = f"K = {row.key.k}" if len(set(estimators)) == 1 else row.key.objective
    curves = row.distinct
    for number, curve in enumerate(curves):
        label = None if number else named
        if label and len(curves) == 1 and not math.isnan(curve.optimum):
            label += f": {parameter} {exact(curve.optimum)}"
        axes.plot(curve.points, curve.values, color=colour, linewidth=1.4, label=label)
        if not math.isnan(curve.optimum):
            axes.plot(
                [curve.optimum] * 2,
                [0.0, curve.best],
                color=colour,
                linewidth=0.8,
                linestyle=":",
                zorder=1,
            )
            axes.plot(
                [curve.optimum],
                [curve.best],
                "o",
                color=colour,
                markersize=5.5,
                markeredgecolor="white",
            )
