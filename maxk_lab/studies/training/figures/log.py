"""The figure of the training log: a line of panels for each measure of the training steps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxk_lab.report.drawing.axes import logarithmic
from maxk_lab.report.drawing.style import finish, panels
from maxk_lab.studies.training.figures.board import Board, Panel
from maxk_lab.studies.training.figures.layout import WIDTH, rollout_ticks
from maxk_lab.studies.training.figures.lines import dashes, draw_behind
from maxk_lab.studies.training.row.model import Logged, TrainingRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The measures that have panels, with their short words; `training.metrics` has their meaning.
ALWAYS = {
    "reward/mean": "mean reward\nof a batch",
    "entropy": "entropy of\nthe policy",
    "grad_norm": "norm of\nthe gradient",
}
# These have panels only where they tell something: where they change during a training.
_VARYING = {
    "kl/token": "KL to the\nanchor policy",
    "clip_ratio/high": "share of ratios\nclipped above",
    "frac_truncated": "share of\ncut samples",
    "frac_reward_zero_std": "share of groups\nof equal rewards",
    "length/mean": "mean length\nof a sample",
    "k": "K that a step\ntrains for",
}
_HEIGHT = 1.35
_WIDEST_COLUMN = 2.2
# Letters that fit above all columns.
_LETTERS = 72
# Markers on a line of many steps, which tell it from others of its colour.
_MARKERS = 4


def shown_measures(rows: Sequence[TrainingRow]) -> list[str]:
    """The measures that have panels: those that always have, and others that change in some row."""
    shown = []
    for name in (*ALWAYS, *_VARYING):
        lines = [row.log[name].values for row in rows if name in row.log]
        known = [{value for value in line if not np.isnan(value)} for line in lines]
        if any(len(values) > (0 if name in ALWAYS else 1) for values in known):
            shown.append(name)
    return shown


def log_figure(board: Board, title: str) -> Figure | None:
    """Measures of the training steps against the rollouts before them; None without a log."""
    shown = shown_measures(board.rows)
    if not shown:
        return None
    columns = len(board.panels)
    width = min(WIDTH, 1.4 + _WIDEST_COLUMN * columns)
    shared = bool(board.where)
    figure, axes = panels(
        len(shown),
        columns,
        (width, 0.9 + _HEIGHT * len(shown)),
        sharey="row" if shared else False,
    )
    for line, measure in zip(axes, shown, strict=True):
        for at, panel in zip(line, board.panels, strict=True):
            among = board.rows if shared else (*panel.rows, *panel.behind)
            _draw(
                at, panel, board, measure, [row.log[measure] for row in among if measure in row.log]
            )
        scale = "\n(log scale)" if any(at.get_yscale() == "log" for at in line) else ""
        line[0].set_ylabel({**ALWAYS, **_VARYING}[measure] + scale)
    for at, panel in zip(axes[0], board.panels, strict=True):
        at.set_title(textwrap.fill(panel.title, int(_LETTERS / columns)))
    for at in axes[-1]:
        at.set_xlabel("rollouts")
        rollout_ticks(at)
    finish(figure, axes, title)
    return figure


def _draw(axes: Axes, panel: Panel, board: Board, measure: str, among: Sequence[Logged]) -> None:
    for row in panel.behind:
        if measure in row.log:
            draw_behind(axes, row.log[measure].rollouts, row.log[measure].values)
    for index, row in enumerate(panel.rows):
        if measure in row.log:
            _line(axes, row.log[measure], row, board, index / len(panel.rows))
    if measure == "grad_norm" and _far_apart(among):
        logarithmic(axes, "y")
    elif among:
        axes.set_ylim(*_limits(among))


def _limits(logged: Sequence[Logged]) -> tuple[float, float]:
    """The ends of an axis with all values; bands of two seeds alone would squeeze every line."""
    values = [value for each in logged for value in each.values]
    ends = [end for each in logged for end in (*each.low, *each.high)]
    if np.isnan(values).all():
        return 0.0, 1.0
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    span = high - low or 1.0
    if not np.isnan(ends).all():
        low = min(low, max(float(np.nanmin(ends)), low - 0.5 * span))
        high = max(high, min(float(np.nanmax(ends)), high + 0.5 * span))
    return low - 0.05 * span, high + 0.05 * span


def _far_apart(logged: Sequence[Logged]) -> bool:
    """Whether positive values span two decades, of which a linear axis shows the last alone."""
    values = [value for each in logged for value in each.values if not np.isnan(value)]
    return bool(values) and 0 < 100 * min(values) < max(values)


def _line(axes: Axes, logged: Logged, row: TrainingRow, board: Board, share: float) -> None:
    """Draw a line with its band; its markers begin at its `share` of the distance between two."""
    style = board.looks.of(row)
    every = max(1, len(logged.values) // _MARKERS)
    axes.plot(
        logged.rollouts,
        logged.values,
        **style,
        linestyle=dashes(row),
        markersize=3,
        linewidth=0.9,
        # Each line begins elsewhere, so that markers do not hide each other.
        markevery=(int(share * every), every),
        label=board.looks.label(row),
    )
    if not np.isnan(logged.low).all():
        axes.fill_between(
            logged.rollouts, logged.low, logged.high, color=style["color"], alpha=0.15, linewidth=0
        )
