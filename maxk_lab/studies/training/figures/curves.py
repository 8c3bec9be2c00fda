"""The learning curves of a training study: held-out Max@K against rollouts, and against time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from maxk_lab.report.drawing.ranges import known, limits, squeezed
from maxk_lab.report.drawing.style import finish, panels
from maxk_lab.studies.training.figures.board import Board, Panel
from maxk_lab.studies.training.figures.layout import (
    WIDTH,
    leaving,
    rollout_ticks,
    side_by_side,
)
from maxk_lab.studies.training.figures.lines import as_seen, draw_behind, draw_line
from maxk_lab.studies.training.row.model import Evaluation, TrainingRow
from maxk_lab.studies.training.told import has_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 1.75
# Of an evaluation: what the x axis shows.
_At = Callable[[Evaluation], float]


def against_rollouts(board: Board, ks: Sequence[int], title: str) -> Figure:
    """Held-out Max@K during training, a row of panels for each of the board and a column per K."""
    lines = len(board.panels)
    shared = bool(board.where)
    figure, axes = panels(
        lines,
        len(ks),
        (WIDTH, 0.9 + _HEIGHT * lines),
        sharey="col" if shared else False,
    )
    for line, panel in zip(axes, board.panels, strict=True):
        for at, k in zip(line, ks, strict=True):
            among = board.rows if shared else panel.rows
            _draw(at, panel, board, k, lambda evaluation: evaluation.rollouts, among)
            rollout_ticks(at)
        line[0].set_ylabel(panel.title or "held-out value")
    for at, k in zip(axes[0], ks, strict=True):
        at.set_title(board.panels[0].of.heading(k))
    for at in axes[-1]:
        at.set_xlabel("rollouts")
    finish(figure, axes, title)
    return figure


def against_time(board: Board, title: str) -> Figure | None:
    """Max@K of all samples against the seconds of training; None where no clock was kept."""
    timed = [
        row
        for row in board.rows
        if any(not math.isnan(evaluation.seconds) for evaluation in row.evaluations)
    ]
    kept = board.of(timed)
    if kept is None:
        return None
    top = {panel.of.top for panel in kept.panels}
    named = kept.panels[0].of.at(max(top)) if len(top) == 1 else "all samples"
    labels = "seconds of training", f"held-out {named}"
    shared = bool(kept.where)
    figure, axes = side_by_side(len(kept.panels), shared=shared, labels=labels)
    for panel, at in zip(kept.panels, axes, strict=True):
        k = panel.of.top
        among = kept.rows if shared else panel.rows
        _draw(at, panel, kept, k, lambda evaluation: evaluation.seconds, among)
        at.set_title(panel.title)
    finish(figure, axes, title)
    return figure


def off_the_axes(board: Board, ks: Sequence[int]) -> list[TrainingRow]:
    """The rows of which the axes leave out the second half of training at some of these K."""
    groups = [board.rows] if board.where else [panel.rows for panel in board.panels]
    return [
        row
        for rows in groups
        for row in rows
        if any(row in _outside(rows, k) and _ends(rows, k) is not None for k in ks)
    ]


def _draw(
    axes: Axes,
    panel: Panel,
    board: Board,
    k: int,
    at: _At,
    among: Sequence[TrainingRow],
) -> None:
    """Draw a panel whose axis is for all rows `among` which it is to be read."""
    ends = _ends(among, k)
    for row in panel.behind:
        found = _with_value(row, k)
        draw_behind(axes, [at(each) for each in found], [each.values[k].value for each in found])
    for row in panel.rows:
        found = _with_value(row, k)
        values = as_seen([each.values[k] for each in found], ends)
        label = board.looks.label(row)
        draw_line(axes, [at(each) for each in found], values, row, board.looks.of(row), label)
    if ends is not None:
        axes.set_ylim(*ends)


def _with_value(row: TrainingRow, k: int) -> list[Evaluation]:
    return [e for e in row.evaluations if k in e.values and has_value(e.values[k])]


def _late(row: TrainingRow, k: int) -> list[float]:
    """The values of the second half of its evaluations."""
    values = [e.values[k].value for e in row.evaluations if k in e.values]
    return values[len(values) // 2 :]


def _outside(rows: Sequence[TrainingRow], k: int) -> list[TrainingRow]:
    """The rows that are far from the others in the second half of training."""
    late = [_late(row, k) for row in rows]
    out = leaving(late) if all(late) else [False] * len(late)
    return [row for row, is_out in zip(rows, out, strict=True) if is_out]


def _ends(rows: Sequence[TrainingRow], k: int) -> tuple[float, float] | None:
    """The range of the bulk of the rows in the second half of their evaluations.

    None where neither the start of training nor a row would flatten the rest.
    """
    gone = _outside(rows, k)
    inside = [_late(row, k) for row in rows if row not in gone]
    lines = [[e.values[k].value for e in row.evaluations if k in e.values] for row in rows]
    if not any(map(known, inside)) or not squeezed(inside, lines):
        return None
    bands = [
        [end for e in row.evaluations[len(row.evaluations) // 2 :] for end in _band(e, k)]
        for row in rows
        if row not in gone
    ]
    return limits(inside, [*inside, *bands])


def _band(evaluation: Evaluation, k: int) -> tuple[float, ...]:
    found = evaluation.values.get(k)
    return () if found is None else (found.low, found.high)
