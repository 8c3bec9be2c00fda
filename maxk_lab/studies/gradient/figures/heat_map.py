"""The heat map of relative variance: every method against (n, K), next to the best unbiased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.report.document import UNDEFINED, number
from maxk_lab.report.drawing.style import panels, wide_enough, wrapped
from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.figures.strips import (
    COLUMNS,
    line_names,
    line_of,
    place_of,
    place_words,
)
from maxk_lab.studies.gradient.pool import FOUND_BIASED, GradientKey, GradientRow, is_oracle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours span these multiples of the best unbiased at most; beyond, only the numbers change.
_SPAN = (0.1, 100.0)
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
# Inches between two lines of cells.
_LINE = 0.195
# The colour of cells without a value, of biased ones, and of those without one to compare with.
_NO_COLOUR = (0.93, 0.93, 0.93)
# Lines of one page, of which a panel takes so many for its title and its axis.
_LINES = 45
_HEAD = 2.6
# Columns of one panel.
_WIDE = 6

Size = tuple[int, int]
Colour = tuple[float, ...]


def has_heat_map(rows: Sequence[GradientRow]) -> bool:
    """There are two values to compare in some column."""
    sizes = [_size(row) for row in rows if _known(row)]
    return any(sizes.count(size) > 1 for size in set(sizes))


def relative_to_best(rows: Sequence[GradientRow]) -> dict[GradientKey, float]:
    """Relative variance over the least of the unbiased rows with the same (n, K), where known.

    Those that are biased have none: theirs is the variance of another gradient.
    """
    best: dict[Size, float] = {}
    for row in filter(may_be_best, rows):
        best[_size(row)] = min(_value(row), best.get(_size(row), math.inf))
    return {
        row.key: _value(row) / best[_size(row)]
        for row in rows
        if _known(row) and _fair(row) and _size(row) in best
    }


def heat_map_pages(rows: Sequence[GradientRow]) -> list[list[GradientRow]]:
    """The rows of each figure: of as many places as stand above each other on one page.

    Places beyond the last page are left out.
    """
    found: list[list[GradientRow]] = []
    lines = 0.0
    for members in grouped(rows, place_of).values():
        if not has_heat_map(members):
            continue
        more = sum(len(line_names(part)) + _HEAD for part in _parts(members))
        if found and lines + more <= _LINES:
            found[-1] += members
            lines += more
        else:
            found.append(list(members))
            lines = more
    return found[:COLUMNS]


def _parts(rows: Sequence[GradientRow]) -> list[list[GradientRow]]:
    """The rows of each panel of a place: the next values of K with all their n, as far as fit."""
    found: list[list[Size]] = []
    for sizes in grouped(sorted({_size(row) for row in rows}), lambda size: size[0]).values():
        if found and len(found[-1]) + len(sizes) <= _WIDE:
            found[-1] += sizes
        else:
            width = -(-len(sizes) // -(-len(sizes) // _WIDE))
            found += [sizes[i : i + width] for i in range(0, len(sizes), width)]
    return [[row for row in rows if _size(row) in sizes] for sizes in found]


def heat_map_figure(rows: Sequence[GradientRow], title: str) -> Figure:
    """Panels of each place: one line per estimator and baseline, one column per (K, n).

    A panel has as many columns as a phone has the width for, those of one K together. Every cell
    says its relative variance; its colour says how many times the least among the unbiased of its
    column that is. Biased pairs are named so, cells found biased carry a ᵇ, and neither is ever
    the best, nor has it a colour.
    """
    import matplotlib as mpl
    from matplotlib.colors import LogNorm

    places = grouped(rows, place_of)
    parts = [(place, part) for place, found in places.items() for part in _parts(found)]
    names = [line_names(part) for _, part in parts]
    ratios = {
        key: value for found in places.values() for key, value in relative_to_best(found).items()
    }
    low = max(_SPAN[0], min([1.0, *ratios.values()]))
    high = min(_SPAN[1], max([2.0, *ratios.values()]))
    norm, colours = LogNorm(low, high, clip=True), mpl.colormaps["viridis_r"]

    longest = max(len(name) for found in names for name in found.values())
    columns = max(len({_size(row) for row in part}) for _, part in parts)
    width = wide_enough(title, max(4.5, 1.1 + 0.058 * longest + 0.4 * columns))
    heights = [_LINE * (len(found) + _HEAD) for found in names]
    size = (width, 0.85 + sum(heights))
    figure, axes = panels(len(parts), 1, size, sharey=False, sharex="row", heights=heights)
    for (panel,), (place, part), found in zip(axes, parts, names, strict=True):
        lines, sizes = list(found), sorted({_size(row) for row in part})
        for row in part:
            spot = (sizes.index(_size(row)), lines.index(line_of(row)))
            _cell(panel, spot, row, colours(norm(ratios[row.key])) if row.key in ratios else None)
        _frame(panel, list(found.values()), sizes, columns)
        panel.set_title(place_words(place, rows))
    _scale(figure, axes, mpl.cm.ScalarMappable(norm, colours), sum(heights))
    figure.suptitle(wrapped(title, width), fontsize=9.5)
    return figure


def _scale(figure: Figure, axes: Any, scale: Any, height: float) -> None:
    low, high = scale.norm.vmin, scale.norm.vmax
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    bar = figure.colorbar(scale, ax=axes, pad=0.015, aspect=max(8.0, height / 0.13), extend="both")
    bar.set_ticks(ticks, labels=[f"{tick:g}×" for tick in ticks], minor=False)
    bar.ax.minorticks_off()
    bar.set_label("times the least of the unbiased", fontsize=8)
    bar.ax.tick_params(labelsize=7.5)


def _size(row: GradientRow) -> Size:
    return row.key.k, row.key.n


def _value(row: GradientRow) -> float:
    return row.intervals["relative_variance"].value


def _known(row: GradientRow) -> bool:
    """Whether it has a value and an interval that ends: the signal is told from nothing."""
    found = row.intervals["relative_variance"]
    return found.known and math.isfinite(found.high) and found.value > 0


def may_be_best(row: GradientRow) -> bool:
    """Whether it is unbiased, as far as known, has a value, and is no oracle."""
    return _known(row) and _fair(row) and not is_oracle(row)


def _fair(row: GradientRow) -> bool:
    return row.catalogued_unbiased and row.bias.verdict not in FOUND_BIASED


def _cell(axes: Axes, spot: tuple[int, int], row: GradientRow, face: Colour | None) -> None:
    from matplotlib.patches import Rectangle

    x, y = spot
    text = number(_value(row)) if _known(row) else UNDEFINED
    if row.bias.verdict in FOUND_BIASED:
        text += "ᵇ"
    face = face or _NO_COLOUR
    light = np.dot(face[:3], (0.299, 0.587, 0.114)) > 0.5
    axes.add_patch(
        Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="white", linewidth=0.8)
    )
    axes.text(
        x, y, text, ha="center", va="center", fontsize=6.5, color="black" if light else "white"
    )


def _frame(axes: Axes, labels: Sequence[str], columns: Sequence[Size], most: int) -> None:
    axes.set(xlim=(-0.5, most - 0.5), ylim=(len(labels) - 0.5, -0.5))
    axes.set_yticks(range(len(labels)), labels, fontsize=7.5)
    axes.set_xticks(range(len(columns)), [f"K={k}\nn={n}" for k, n in columns], fontsize=7.5)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
