"""The figure of the training log: a small panel for each measure of the training steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.report.drawing.axes import logarithmic
from maxk_lab.report.drawing.style import finish, legend_width, panels
from maxk_lab.studies.training.figures.curves import MANY, rollout_ticks, row_looks
from maxk_lab.studies.training.row.model import Logged, TrainingRow
from maxk_lab.studies.training.row.names import UNBIASED, derived, labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALWAYS = ("reward/mean", "entropy", "grad_norm")
# These have a panel only where they tell something: where they are not one number all the time.
_VARYING = (
    "kl/token",
    "clip_ratio/high",
    "frac_truncated",
    "frac_reward_zero_std",
    "length/mean",
    "k",
)
_COLUMNS = 3
_LEGEND_LINES = 9
# Markers on a line of many steps, which tell it from others of its colour.
_MARKERS = 5


def shown_measures(rows: Sequence[TrainingRow]) -> list[str]:
    """The measures that have a panel, if any of the rows has a value of them."""
    shown = []
    for name in (*ALWAYS, *_VARYING):
        values = {value for row in rows if name in row.log for value in row.log[name].values}
        values = {value for value in values if not np.isnan(value)}
        if len(values) > (0 if name in ALWAYS else 1):
            shown.append(name)
    return shown


def log_figure(rows: Sequence[TrainingRow], title: str, level: float) -> Figure:
    """Measures of the training steps against the rollouts before them, a thin line per row."""
    shown, names, styles = shown_measures(rows), labels(rows), row_looks(rows)
    lines = -(-len(shown) // _COLUMNS)
    columns = -(-len(shown) // lines)
    wide = legend_width(names, _LEGEND_LINES) if len(rows) > MANY else 0.0
    size = (max(4.8, 1.0 + 2.2 * columns, wide), 1.0 + 1.75 * lines)
    figure, axes = panels(lines, columns, size, sharey=False)
    for panel, measure in zip(axes.flat, shown, strict=False):
        for index, row in enumerate(rows):
            if measure in row.log:
                _line(panel, row.log[measure], row, index, styles, names[index])
        logged = [row.log[measure] for row in rows if measure in row.log]
        if measure == "grad_norm" and _far_apart(logged):
            panel.set_title(f"{measure} (log scale)")
            logarithmic(panel, "y")
        else:
            panel.set(title=measure, ylim=_limits(logged, banded=len(rows) <= MANY))
    for panel in axes.flat[len(shown) :]:
        panel.set_axis_off()
    for panel in axes.flat[max(0, len(shown) - columns) : len(shown)]:
        # The lowest of its column, even where the last line of panels is not full.
        panel.tick_params(labelbottom=True)
        rollout_ticks(panel)
    for panel in axes[-1]:
        panel.set_xlabel("rollouts")
    said = f"values of the training batches, {_seeds_in_words(rows, level)}"
    finish(figure, axes, f"{title}\n{said}")
    return figure


def _seeds_in_words(rows: Sequence[TrainingRow], level: float) -> str:
    seeds = max(len(row.cells) for row in rows)
    if seeds == 1:
        return "one seed: no bands"
    if len(rows) > MANY:
        return f"mean over {seeds} seeds (too many lines for bands)"
    return f"bands: {level:.0%} intervals over {seeds} seeds"


def _limits(logged: Sequence[Logged], *, banded: bool) -> tuple[float, float]:
    """The ends of an axis with all values; bands of two seeds alone would squeeze every line."""
    values = [value for each in logged for value in each.values]
    ends = [end for each in logged for end in (*each.low, *each.high)]
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    span = high - low or 1.0
    if banded and not np.isnan(ends).all():
        low = min(low, max(float(np.nanmin(ends)), low - 0.5 * span))
        high = max(high, min(float(np.nanmax(ends)), high + 0.5 * span))
    return low - 0.05 * span, high + 0.05 * span


def _far_apart(logged: Sequence[Logged]) -> bool:
    """Whether positive values span two decades, of which a linear axis shows the last alone."""
    values = [value for each in logged for value in each.values if not np.isnan(value)]
    return bool(values) and 0 < 100 * min(values) < max(values)


def _line(
    axes: Axes,
    logged: Logged,
    row: TrainingRow,
    index: int,
    styles: Sequence[dict[str, Any]],
    label: str,
) -> None:
    of = len(styles)
    every = max(1, len(logged.values) // _MARKERS)
    axes.plot(
        logged.rollouts,
        logged.values,
        **styles[index],
        linestyle="-" if derived(row) == UNBIASED else "--",
        markersize=3,
        linewidth=0.8,
        # Each line begins elsewhere, so that markers do not hide each other.
        markevery=(index * every // of, every),
        label=label,
    )
    if of <= MANY:
        axes.fill_between(
            logged.rollouts,
            logged.low,
            logged.high,
            color=styles[index]["color"],
            alpha=0.15,
            linewidth=0,
        )
