"""The figures of a report: variance against n for every baseline, and a forest plot of the scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.gradients.statistics import Interval
from maxk_lab.report.document import has_interval
from maxk_lab.report.gradient_section import baseline_order, sorted_rows
from maxk_lab.report.model import Summary, SummaryRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with every kind of colour vision; markers do it without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
VERDICT_MARKS = {
    "no bias seen": ("o", "#0072B2"),
    "scale bias": ("D", "#E69F00"),
    "biased": ("X", "#D55E00"),
    "reference": ("s", "#666666"),
    "undefined": (".", "#999999"),
}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "maxk-lab",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}
# What a forest panel shows at least, in units of the true scale 1; longer intervals end in an arrow.
_FOREST_RANGE = (-0.5, 2.5)


def figures(summary: Summary, out: Path) -> list[Path]:
    """Draw every figure that has something to show into `out`, each as PNG and SVG; returns the files."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        return _draw_all(summary, out)


def _draw_all(summary: Summary, out: Path) -> list[Path]:
    drawn: list[Path] = []
    rows = [row for row in sorted_rows(summary.rows) if row.units is not None]
    tables = [(table, list(found)) for table, found in groupby(rows, key=lambda row: row.key.table)]
    for (environment, estimator), found in _by_estimator(tables):
        several = len({(row.key.environment, row.key.estimator) for row in rows}) > 1
        name = f"variance-{estimator}" if several else "variance"
        if any(has_interval(row.intervals["variance"]) for row in found):
            title = f"Gradient variance, {environment}, estimator {estimator}"
            drawn += _save(_variance_figure(found, title, summary.level), out, _unused(name, drawn))
    for (environment, stage, estimator), found in tables:
        if any(has_interval(row.intervals["scale"]) for row in found):
            title = f"Bias along the gradient, {environment}, stage {stage}, estimator {estimator}"
            name = f"bias-stage{stage}" + (f"-{estimator}" if len({t[2] for t, _ in tables}) > 1 else "")
            drawn += _save(_forest_figure(found, title, summary.level), out, _unused(name, drawn))
    return drawn


def _by_estimator(
    tables: Sequence[tuple[tuple[str, int, str], list[SummaryRow]]],
) -> list[tuple[tuple[str, str], list[SummaryRow]]]:
    merged: dict[tuple[str, str], list[SummaryRow]] = {}
    for (environment, _, estimator), rows in tables:
        merged.setdefault((environment, estimator), []).extend(rows)
    return list(merged.items())


def _unused(name: str, drawn: Sequence[Path]) -> str:
    taken = {path.stem for path in drawn}
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return (
        safe
        if safe not in taken
        else next(f"{safe}-{i}" for i in range(2, 1000) if f"{safe}-{i}" not in taken)
    )


def _variance_figure(rows: Sequence[SummaryRow], title: str, level: float) -> Figure:
    stages, ks = sorted({row.key.stage for row in rows}), sorted({row.key.k for row in rows})
    baselines = sorted({row.key.baseline for row in rows}, key=baseline_order)
    height = 1.0 + 2.3 * len(stages)
    figure, axes = _panels(len(stages), len(ks), (max(4.8, 1.2 + 2.2 * len(ks)), height))
    for (i, stage), (j, k) in ((a, b) for a in enumerate(stages) for b in enumerate(ks)):
        panel = [row for row in rows if row.key.stage == stage and row.key.k == k]
        for index, baseline in enumerate(baselines):
            line = [row for row in panel if row.key.baseline == baseline]
            _variance_line(axes[i][j], line, index, len(baselines), baseline)
        axes[i][j].set_title(f"K = {k}, stage {stage}")
        if i == len(stages) - 1:
            axes[i][j].set_xlabel("samples n")
        _sample_axis(axes[i][j], sorted({row.key.n for row in rows}))
        axes[i][j].set_yscale("log")
    for row_of_axes in axes:
        row_of_axes[0].set_ylabel("trace of covariance")
    _finish(figure, axes, f"{title}\nbars: {level:.0%} intervals{_over(rows)}")
    return figure


def _variance_line(axes: Axes, line: Sequence[SummaryRow], index: int, of: int, label: str) -> None:
    known = [
        row for row in line if has_interval(row.intervals["variance"]) and row.intervals["variance"].low > 0
    ]
    # A little sideways shift (the axis is logarithmic) keeps bars of different baselines apart.
    shift = 1.025 ** (index - (of - 1) / 2)
    values = [row.intervals["variance"] for row in known]
    unbiased = all(row.catalogued_unbiased for row in line)
    axes.errorbar(
        [row.key.n * shift for row in known],
        [value.value for value in values],
        yerr=_bars(values),
        color=COLOURS[index % len(COLOURS)],
        marker=MARKERS[index % len(MARKERS)],
        linestyle="-" if unbiased else "--",
        markersize=4,
        linewidth=1.1,
        capsize=2,
        label=label if unbiased else f"{label} (biased)",
    )


def _sample_axis(axes: Axes, ns: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ns, [str(n) for n in ns])
    axes.set_xticks([], minor=True)
    axes.set_xlim(min(ns) / 1.25, max(ns) * 1.25)


def _forest_figure(rows: Sequence[SummaryRow], title: str, level: float) -> Figure:
    ks = sorted({row.key.k for row in rows})
    baselines = sorted({row.key.baseline for row in rows}, key=baseline_order)
    lines = sorted({(baselines.index(row.key.baseline), row.key.n) for row in rows})
    # One line per (baseline, n); half a line of air between baselines.
    heights = {line: number + 0.6 * line[0] for number, line in enumerate(lines)}
    height = 1.5 + 0.17 * (max(heights.values()) + 1)
    figure, axes = _panels(1, len(ks), (max(4.8, 1.8 + 2.1 * len(ks)), height))
    limits = _forest_limits(rows)
    for j, k in enumerate(ks):
        panel = axes[0][j]
        panel.axvline(1.0, color="black", linewidth=0.8, zorder=1)
        for row in (row for row in rows if row.key.k == k):
            _forest_mark(panel, row, heights[baselines.index(row.key.baseline), row.key.n], limits)
        panel.set(title=f"K = {k}", xlabel="scale", xlim=limits, ylim=(max(heights.values()) + 0.8, -0.8))
        panel.grid(axis="y", visible=False)
        panel.set_yticks(
            [heights[line] for line in lines], [f"{baselines[b]}  n = {n}" for b, n in lines], fontsize=7.5
        )
    subtitle = f"⟨E ĝ, ∇J⟩/‖∇J‖², 1 if unbiased; bars: {level:.0%} intervals{_over(rows)}"
    _finish(figure, axes, f"{title}\n{subtitle}")
    return figure


def _forest_limits(rows: Sequence[SummaryRow]) -> tuple[float, float]:
    """Every point within `_FOREST_RANGE` and the ends of most bars: a few wide ones must not squeeze all."""
    values = [row.intervals["scale"] for row in rows if has_interval(row.intervals["scale"])]
    points = np.clip([value.value for value in values] + [1.0], *_FOREST_RANGE)
    low = min(points.min(), np.clip(np.quantile([value.low for value in values], 0.1), *_FOREST_RANGE))
    high = max(points.max(), np.clip(np.quantile([value.high for value in values], 0.9), *_FOREST_RANGE))
    air = max(0.08 * (high - low), 0.02)
    return float(low - air), float(high + air)


def _forest_mark(axes: Axes, row: SummaryRow, height: float, limits: tuple[float, float]) -> None:
    value = row.intervals["scale"]
    if not has_interval(value):
        axes.text(1.0, height, "—", ha="center", va="center", fontsize=8, color="#666666", zorder=3)
        return
    marker, colour = VERDICT_MARKS[row.bias.verdict]
    axes.errorbar(
        [value.value],
        [height],
        xerr=_bars([value]),
        fmt=marker,
        color=colour,
        markersize=4,
        linewidth=1.1,
        capsize=1.5,
        label=row.bias.verdict,
    )
    for end, beyond, arrow in (
        (limits[0], value.low < limits[0], "<"),
        (limits[1], value.high > limits[1], ">"),
    ):
        if beyond:
            axes.plot([end], [height], marker=arrow, color=colour, markersize=5, clip_on=False, zorder=3)


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)


def _finish(figure: Figure, axes: Any, title: str) -> None:
    """Title above, one legend for all panels below."""
    handles: dict[str, Any] = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.suptitle(title, fontsize=9.5)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(len(handles), 4),
        fontsize=8.5,
        frameon=False,
    )


def _bars(values: Sequence[Interval]) -> Any:
    """Distances [2, len] from each value to its ends, never negative (a point may lie outside)."""
    return np.maximum(0.0, [[v.value - v.low for v in values], [v.high - v.value for v in values]])


def _over(rows: Sequence[SummaryRow]) -> str:
    what = {"instance": "instances", "block": "pool blocks"}.get(rows[0].unit, rows[0].unit)
    return f" over {what}, stratified by seed"


def _save(figure: Figure, out: Path, name: str) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    figure.savefig(paths[0], dpi=150, metadata={"Software": None})
    figure.savefig(paths[1], metadata={"Date": None})
    return paths
