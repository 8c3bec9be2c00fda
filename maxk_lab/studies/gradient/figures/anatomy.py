"""The figure of the variance anatomy: the variance of each method, and the parts it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxk_lab.report.document import number
from maxk_lab.report.drawing.style import finish
from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.figures.strips import place_of, strips
from maxk_lab.studies.gradient.pool import ANATOMY, GradientRow, is_oracle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {
    "variance_first": "first order: each sample alone",
    "variance_cross": "cross terms of the samples",
    "variance_baseline": "the baseline's own noise",
    "variance_interaction": "interaction of these two",
}
_COLOURS = dict(zip(ANATOMY, ("#0072B2", "#56B4E9", "#E69F00", "#CC79A7"), strict=True))
_SUM = "the variance, their sum"
# Inches between lines.
_PITCH = 0.19
# A bar so many times the median one would leave nothing to see of the others.
_FAR = 4.0


def anatomy_rows(rows: Sequence[GradientRow]) -> list[GradientRow]:
    """The rows that the figure shows: of one n, that of most rows with parts, else the largest.

    A row that nothing stands beside is left out: there is nothing to compare, and the table has its
    shares.
    """
    found = [row for row in rows if row.anatomy]
    sizes = [row.key.n for row in found]
    chosen = max(sizes, key=lambda n: (sizes.count(n), n), default=0)
    beside = grouped(
        [row for row in found if row.key.n == chosen], lambda row: (place_of(row), row.key.k)
    )
    return [row for members in beside.values() if len(members) > 1 for row in members]


def anatomy_figure(rows: Sequence[GradientRow], title: str) -> Figure:
    """The parts of each row's variance, stacked, as multiples of the least unbiased beside it.

    A negative interaction is left of zero. The black line is the variance itself, with its number:
    the part of a bar beyond it is left of zero, too. The least is that of the same place, K and
    objective, for gradients of different objectives have no common scale; oracles are shown, and
    are no such least. Bars far larger than most are cut, and only their number says how far they
    reach.
    """
    frame = strips(rows, _PITCH, sharex="row")
    multiples = {row.key: _multiples(row, _least(row, rows)) for row in rows}
    limits = {
        k: _limits([multiples[row.key] for row in rows if row.key.k == k]) for k in frame.heights
    }
    for panel, members in frame.members():
        if not members:
            continue
        left, right = limits[members[0][0].key.k]
        span = right - left
        # Room for the numbers beside the longest bars.
        panel.set_xlim(left - 0.03 * span, right + 0.32 * span)
        parts = [multiples[row.key] for row, _ in members]
        heights = [y for _, y in members]
        for name in ANATOMY:
            _bars(panel, heights, parts, name)
        _totals(panel, heights, parts, right)
        panel.axvline(0.0, color="black", linewidth=0.8)
    for panel in frame.axes[-1]:
        panel.set_xlabel("times the least")
    finish(frame.figure, frame.axes, f"{title}\nof each method at n = {rows[0].key.n}")
    return frame.figure


def multiple(row: GradientRow, rows: Sequence[GradientRow]) -> float:
    """The variance of the row over the least beside it; NaN where that is zero."""
    return sum(row.anatomy.values()) / _least(row, rows)


def _least(row: GradientRow, rows: Sequence[GradientRow]) -> float:
    """The least variance of the unbiased rows of its place, K and objective, of all where none is.

    NaN where that is zero.
    """
    group = [
        other
        for other in rows
        if _objective(other) == _objective(row)
        and place_of(other) == place_of(row)
        and other.key.k == row.key.k
    ]
    candidates = [
        other for other in group if other.catalogued_unbiased and not is_oracle(other)
    ] or group
    least = min(sum(other.anatomy.values()) for other in candidates)
    return least if least > 0 else math.nan


def _objective(row: GradientRow) -> str:
    return row.key.method.objective.name


def _multiples(row: GradientRow, least: float) -> dict[str, float]:
    return {
        part: 0.0 if math.isnan(least) else value / least for part, value in row.anatomy.items()
    }


def _limits(multiples: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """The ends of the axis: of all bars but those far larger than most."""
    above = [sum(max(0.0, part) for part in parts.values()) for parts in multiples]
    below = [sum(min(0.0, part) for part in parts.values()) for parts in multiples]
    return -_most([-depth for depth in below]), _most(above) or 1.0


def _most(sizes: Sequence[float]) -> float:
    largest = max(sizes)
    if largest == 0:
        return 0.0
    usual = _FAR * float(np.median([size for size in sizes if size > 0]))
    return largest if largest <= usual else max(size for size in sizes if size <= usual) * 1.15


def _bars(
    axes: Axes, heights: Sequence[float], parts: Sequence[Mapping[str, float]], part: str
) -> None:
    before = ANATOMY[: ANATOMY.index(part)]
    starts = [sum(p[name] for name in before if (p[name] < 0) == (p[part] < 0)) for p in parts]
    axes.barh(
        heights,
        [p[part] for p in parts],
        0.74,
        left=starts,
        color=_COLOURS[part],
        label=LABELS[part],
        linewidth=0,
    )


def _totals(
    axes: Axes, heights: Sequence[float], parts: Sequence[Mapping[str, float]], right: float
) -> None:
    """The variances, as lines, and their numbers beside the bars, or in cut ones."""
    totals = [sum(found.values()) for found in parts]
    axes.plot(
        totals,
        heights,
        linestyle="none",
        marker="|",
        markersize=_PITCH * 55,
        markeredgewidth=1.6,
        color="black",
        label=_SUM,
    )
    low, edge = axes.get_xlim()
    air = 0.02 * (edge - low)
    for y, total, found in zip(heights, totals, parts, strict=True):
        end = sum(max(0.0, part) for part in found.values())
        # A bar beyond the axis has its number inside, where it begins.
        cut, dark = end > right, found[ANATOMY[0]] > 0.18 * (edge - low)
        axes.text(
            air if cut else end + air,
            y,
            number(total),
            va="center",
            fontsize=6.3,
            zorder=4,
            color="white" if cut and dark else "black",
        )
