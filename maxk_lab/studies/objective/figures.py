"""The figure of an objective study: each objective along the parameter, its maximum marked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.report.document import exact
from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.drawing.style import COLOURS, finish, panels
from maxk_lab.report.model import Summary
from maxk_lab.report.rows import Rows, grouped
from maxk_lab.studies.objective.rows import ObjectiveRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figures(found: Rows[ObjectiveRow], summary: Summary) -> Iterator[Picture]:
    """A figure for each environment and parameter, with its name."""
    rows = [row for row in found.rows if row.curves]
    places = grouped(rows, lambda row: (row.key.environment, row.parameter))
    for (environment, parameter), members in places.items():
        title = f"Objectives along {parameter}: {environment}"
        yield Picture("objective", objective_figure(members, title), title)


def objective_figure(rows: Sequence[ObjectiveRow], title: str) -> Figure:
    """One line per objective (and seed, where the seeds differ), from light to dark as K grows.

    The legend has the optima.
    """
    figure, axes = panels(1, 1, (6.0, 3.9))
    parameter = rows[0].parameter.rpartition(".")[2]
    for row, colour in zip(rows, _colours(rows), strict=True):
        _line(axes[0][0], row, colour, parameter, [r.key.estimator for r in rows])
    axes[0][0].set(xlabel=parameter, ylabel="exact objective")
    axes[0][0].margins(x=0.01)
    finish(figure, axes, f"{title}\ndots: the optimum of each; exact, so without intervals")
    return figure


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
