"""The heat map of relative variance: every method against (n, K), next to the best unbiased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxk_lab.report.document import UNDEFINED, number
from maxk_lab.report.drawing.style import panels, wide_enough, wrapped
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow
from maxk_lab.studies.gradient.row.order import is_oracle, method, method_order, shared_estimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours span these multiples of the best unbiased at most; beyond, only the numbers change.
_SPAN = (0.1, 100.0)
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
# Inches between two lines of cells.
_LINE = 0.195
# The colour of cells without a value, or without an unbiased one to compare it with.
_NO_COLOUR = (0.93, 0.93, 0.93)
_FOUND_BIASED = ("biased", "scale bias")

Size = tuple[int, int]


def has_heat_map(rows: Sequence[GradientRow]) -> bool:
    """There are two values to compare in some column."""
    sizes = [_size(row) for row in rows if _known(row)]
    return any(sizes.count(size) > 1 for size in set(sizes))


def relative_to_best(rows: Sequence[GradientRow]) -> dict[GradientKey, float]:
    """Relative variance over the least of the unbiased rows with the same (n, K), where known."""
    best: dict[Size, float] = {}
    for row in filter(_may_be_best, rows):
        best[_size(row)] = min(_value(row), best.get(_size(row), math.inf))
    return {
        row.key: _value(row) / best[_size(row)]
        for row in rows
        if _known(row) and _size(row) in best
    }


def heat_map_figure(rows: Sequence[GradientRow], title: str) -> Figure:
    """One line per estimator and baseline, one column per (K, n), of one environment and stage.

    Every cell says its relative variance; its colour says how many times the least among the
    unbiased of its column that is. Biased pairs are named so, cells found biased carry a ᵇ, and
    neither is ever the best.
    """
    import matplotlib as mpl
    from matplotlib.colors import LogNorm

    rows = sorted(rows, key=lambda row: method_order(row))
    lines = list(dict.fromkeys((row.key.estimator, row.key.baseline) for row in rows))
    columns = sorted({_size(row) for row in rows})
    ratios = relative_to_best(rows)
    low = max(_SPAN[0], min([1.0, *ratios.values()]))
    high = min(_SPAN[1], max([2.0, *ratios.values()]))
    norm, colours = LogNorm(low, high, clip=True), mpl.colormaps["viridis_r"]

    labels = [_label(line, rows) for line in lines]
    notes = "tr Cov ĝ/‖E ĝ‖²; ᵇ: found biased; —: no finite interval"
    title = f"{title}\n{notes}"
    width = wide_enough(title, max(4.5, 1.3 + 0.058 * max(map(len, labels)) + 0.52 * len(columns)))
    height = _LINE * len(lines)
    figure, ((axes,),) = panels(1, 1, (width, 1.35 + height))
    for row in rows:
        spot = (columns.index(_size(row)), lines.index((row.key.estimator, row.key.baseline)))
        face = colours(norm(ratios[row.key])) if row.key in ratios else _NO_COLOUR
        _cell(axes, spot, row, face)
    _frame(axes, labels, columns)
    scale = mpl.cm.ScalarMappable(norm, colours)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    bar = figure.colorbar(scale, ax=axes, pad=0.015, aspect=max(8.0, height / 0.13), extend="both")
    bar.set_ticks(ticks, labels=[f"{tick:g}×" for tick in ticks], minor=False)
    bar.ax.minorticks_off()
    bar.set_label("times the least of the unbiased", fontsize=8)
    bar.ax.tick_params(labelsize=7.5)
    figure.suptitle(wrapped(title, width), fontsize=9.5)
    return figure


def _size(row: GradientRow) -> Size:
    return row.key.k, row.key.n


def _value(row: GradientRow) -> float:
    return row.intervals["relative_variance"].value


def _known(row: GradientRow) -> bool:
    """Whether it has a value and an interval that ends: the signal is told from nothing."""
    found = row.intervals["relative_variance"]
    return found.known and math.isfinite(found.high) and found.value > 0


def _may_be_best(row: GradientRow) -> bool:
    return (
        _known(row)
        and row.catalogued_unbiased
        and not is_oracle(row)
        and row.bias.verdict not in _FOUND_BIASED
    )


def _label(line: tuple[str, str], rows: Sequence[GradientRow]) -> str:
    members = [row for row in rows if (row.key.estimator, row.key.baseline) == line]
    row = members[0]
    name = method(row)
    if name != row.key.estimator:
        name = f"{shared_estimator(row)}  {name}"
    return name if row.catalogued_unbiased else f"{name} (biased)"


def _cell(axes: Axes, spot: tuple[int, int], row: GradientRow, face: tuple[float, ...]) -> None:
    from matplotlib.patches import Rectangle

    x, y = spot
    text = number(_value(row)) if _known(row) else UNDEFINED
    if row.bias.verdict in _FOUND_BIASED:
        text += "ᵇ"
    light = np.dot(face[:3], (0.299, 0.587, 0.114)) > 0.5
    axes.add_patch(
        Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="white", linewidth=0.8)
    )
    axes.text(
        x, y, text, ha="center", va="center", fontsize=6.8, color="black" if light else "white"
    )


def _frame(axes: Axes, labels: Sequence[str], columns: Sequence[Size]) -> None:
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(labels) - 0.5, -0.5))
    axes.set_yticks(range(len(labels)), labels, fontsize=7.5)
    axes.set_xticks(range(len(columns)), [f"K={k}\nn={n}" for k, n in columns], fontsize=7.5)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
