"""Figures of a gradient study: variance against n of every method, a forest plot of the scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxk_lab.report.drawing.axes import logarithmic
from maxk_lab.report.drawing.style import bars, finish, look, panels
from maxk_lab.report.rows import grouped
from maxk_lab.studies.gradient.figures.questions import about
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import method, method_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERDICT_MARKS = {
    "unbiased": ("^", "#009E73"),
    "no bias seen": ("o", "#0072B2"),
    "scale bias": ("D", "#E69F00"),
    "biased": ("X", "#D55E00"),
    "reference": ("s", "#666666"),
    "undefined": (".", "#999999"),
}
# The least range of a forest panel, where the true scale is 1; longer intervals end in an arrow.
_FOREST_RANGE = (-0.5, 2.5)


def variance_figure(rows: Sequence[GradientRow], title: str, level: float) -> Figure:
    stages, ks = sorted({row.key.stage for row in rows}), sorted({row.key.k for row in rows})
    methods = list(dict.fromkeys(method(row) for row in sorted(rows, key=method_order)))
    # Many methods need the width for their legend.
    width = max(4.8 if len(methods) <= 10 else 7.5, 1.2 + 2.2 * len(ks))
    figure, axes = panels(len(stages), len(ks), (width, 1.0 + 2.3 * len(stages)))
    known = [row for row in rows if row.intervals["variance"].known]
    drawn = [row for row in known if row.intervals["variance"].low > 0]
    # A logarithmic axis has no place for intervals that reach 0; without any other it is linear.
    log = bool(drawn)
    for (i, stage), (j, k) in ((a, b) for a in enumerate(stages) for b in enumerate(ks)):
        panel = [row for row in drawn or known if row.key.stage == stage and row.key.k == k]
        for index, name in enumerate(methods):
            line = [row for row in panel if method(row) == name]
            unbiased = all(row.catalogued_unbiased for row in rows if method(row) == name)
            _variance_line(axes[i][j], line, index, len(methods), name, unbiased)
        axes[i][j].set_title(f"K = {k}, stage {stage}")
        if i == len(stages) - 1:
            axes[i][j].set_xlabel("samples n")
        _sample_axis(axes[i][j], sorted({row.key.n for row in rows}))
        if log:
            logarithmic(axes[i][j], "y")
    for row_of_axes in axes:
        row_of_axes[0].set_ylabel("trace of covariance")
    said = f"bars: {level:.0%} intervals {about(rows, 'variance')}"
    if log and len(drawn) < len(known):
        said += f"; not shown, for reaching 0: {len(known) - len(drawn)}"
    finish(figure, axes, f"{title}\n{said}")
    return figure


def _variance_line(
    axes: Axes, line: Sequence[GradientRow], index: int, of: int, label: str, unbiased: bool
) -> None:
    # A little sideways shift (the axis is logarithmic) keeps bars apart; all together stay nearer
    # than the next n.
    shift = min(1.025, 1.35 ** (1 / max(1, of - 1))) ** (index - (of - 1) / 2)
    values = [row.intervals["variance"] for row in line]
    axes.errorbar(
        [row.key.n * shift for row in line],
        [value.value for value in values],
        yerr=bars(values),
        **look(index),
        linestyle="-" if unbiased else "--",
        markersize=4,
        linewidth=1.1,
        capsize=2,
        label=label if unbiased else f"{label} (biased)",
    )


def _sample_axis(axes: Axes, ns: Sequence[int]) -> None:
    logarithmic(axes, "x", 2)
    axes.set_xticks(ns, [str(n) for n in ns])
    axes.set_xticks([], minor=True)
    axes.set_xlim(min(ns) / 1.25, max(ns) * 1.25)


def forest_figure(rows: Sequence[GradientRow], title: str, level: float) -> Figure:
    ks = sorted({row.key.k for row in rows})
    methods = list(dict.fromkeys(method(row) for row in sorted(rows, key=method_order)))
    lines = sorted({(methods.index(method(row)), row.key.n) for row in rows})
    # One line per (method, n); half a line of air between methods.
    heights = {line: number + 0.6 * line[0] for number, line in enumerate(lines)}
    height = 1.5 + 0.17 * (max(heights.values()) + 1)
    figure, axes = panels(1, len(ks), (max(4.8, 1.8 + 2.1 * len(ks)), height))
    limits = _forest_limits(rows)
    for j, k in enumerate(ks):
        panel = axes[0][j]
        panel.axvline(1.0, color="black", linewidth=0.8, zorder=1)
        marks = [
            (row, heights[methods.index(method(row)), row.key.n]) for row in rows if row.key.k == k
        ]
        _forest_marks(panel, marks, limits)
        panel.set(
            title=f"K = {k}",
            xlabel="scale (1: unbiased)",
            xlim=limits,
            ylim=(max(heights.values()) + 0.8, -0.8),
        )
        panel.grid(axis="y", visible=False)
        panel.set_yticks(
            [heights[line] for line in lines],
            [f"{methods[m]}  n = {n}" for m, n in lines],
            fontsize=7.5,
        )
    subtitle = f"scale: ⟨E ĝ, ∇J⟩/‖∇J‖²; bars: {level:.0%} intervals {about(rows, 'scale')}"
    finish(figure, axes, f"{title}\n{subtitle}")
    return figure


def _forest_limits(rows: Sequence[GradientRow]) -> tuple[float, float]:
    """The ends of an axis with every point in `_FOREST_RANGE` and the ends of most bars."""
    values = [row.intervals["scale"] for row in rows if row.intervals["scale"].known]
    points = np.clip([value.value for value in values] + [1.0], *_FOREST_RANGE)
    low = min(
        points.min(), np.clip(np.quantile([value.low for value in values], 0.1), *_FOREST_RANGE)
    )
    high = max(
        points.max(), np.clip(np.quantile([value.high for value in values], 0.9), *_FOREST_RANGE)
    )
    air = max(0.08 * (high - low), 0.02)
    return float(low - air), float(high + air)


def _forest_marks(
    axes: Axes, marks: Sequence[tuple[GradientRow, float]], limits: tuple[float, float]
) -> None:
    """Mark rows at their heights, those of one verdict together: every call for a mark costs."""
    for _, height in (mark for mark in marks if not mark[0].intervals["scale"].known):
        axes.text(1.0, height, "—", ha="center", va="center", fontsize=8, color="#666666", zorder=3)
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
            markersize=4,
            linewidth=1.1,
            capsize=1.5,
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
                    markersize=5,
                    clip_on=False,
                    zorder=3,
                )
