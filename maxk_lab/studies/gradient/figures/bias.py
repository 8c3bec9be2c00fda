"""The figure of biases: the scale of each method's mean estimate along the true gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxk_lab.report.document import UNDEFINED
from maxk_lab.report.drawing.style import bars, finish
from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.figures.strips import offsets, shown_sizes, strips
from maxk_lab.studies.gradient.pool import GradientRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERDICT_MARKS = {
    "unbiased": ("^", "#009E73"),
    "no bias seen": ("o", "#0072B2"),
    "scale bias": ("D", "#E69F00"),
    "biased": ("X", "#D55E00"),
    "alarm": ("P", "#CC79A7"),
    "reference": ("s", "#666666"),
    "undefined": (".", "#999999"),
}
# The least range of a panel, where the true scale is 1; longer intervals end in an arrow.
_RANGE = (-0.5, 2.5)


def bias_figure(rows: Sequence[GradientRow], title: str, level: float) -> Figure:
    """A line per method with a mark for each n, in a panel per K and place.

    Colour and marker tell the verdict; of each line the least n is above. A method that was planned
    and has no value has a dash.
    """
    sizes = shown_sizes(rows)
    shifts = dict(zip(sizes, offsets(len(sizes)), strict=True))
    frame, limits = strips(rows, 0.17), _limits(rows)
    frame.axes[0][0].set_xlim(*limits)
    for panel, members in frame.members():
        panel.axvline(1.0, color="black", linewidth=0.8, zorder=1)
        marks = [(row, y + shifts[row.key.n]) for row, y in members if row.key.n in shifts]
        _marks(panel, marks, limits)
    for panel in frame.axes[-1]:
        panel.set_xlabel("scale (1: unbiased)")
    said = f"bars: {level:.0%} intervals"
    if len(sizes) > 1:
        said += f"; each line from above: n = {', '.join(map(str, sizes))}"
    finish(frame.figure, frame.axes, f"{title}\n{said}")
    return frame.figure


def _limits(rows: Sequence[GradientRow]) -> tuple[float, float]:
    """The ends of an axis with every point in `_RANGE` and the ends of most bars."""
    values = [row.intervals["scale"] for row in rows if row.intervals["scale"].known]
    points = np.clip([value.value for value in values] + [1.0], *_RANGE)
    low = min(points.min(), np.clip(np.quantile([value.low for value in values], 0.1), *_RANGE))
    high = max(points.max(), np.clip(np.quantile([value.high for value in values], 0.9), *_RANGE))
    air = max(0.08 * (high - low), 0.02)
    return float(low - air), float(high + air)


def _marks(
    axes: Axes, marks: Sequence[tuple[GradientRow, float]], limits: tuple[float, float]
) -> None:
    """Mark rows at their heights, those of one verdict together: every call for a mark costs."""
    for _, y in (mark for mark in marks if not mark[0].intervals["scale"].known):
        axes.text(1.0, y, UNDEFINED, ha="center", va="center", fontsize=6, color="#666666")
    known = [mark for mark in marks if mark[0].intervals["scale"].known]
    for verdict, alike in grouped(known, lambda mark: mark[0].bias.verdict).items():
        marker, colour = VERDICT_MARKS[verdict]
        values = [row.intervals["scale"] for row, _ in alike]
        heights = [height for _, height in alike]
        axes.errorbar(
            [value.value for value in values],
            heights,
            xerr=bars(values),
            fmt=marker,
            color=colour,
            markersize=3.4,
            linewidth=1.0,
            label=verdict,
        )
        for end, arrow, side in ((limits[0], "<", -1), (limits[1], ">", 1)):
            ends = [value.low if side < 0 else value.high for value in values]
            beyond = [h for h, far in zip(heights, ends, strict=True) if side * (far - end) > 0]
            if beyond:
                axes.plot(
                    [end] * len(beyond),
                    beyond,
                    linestyle="none",
                    marker=arrow,
                    color=colour,
                    markersize=4,
                    clip_on=False,
                    zorder=3,
                )
