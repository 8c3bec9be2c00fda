"""Figures of trained policies against K: the final Max@K, its differences, and its gap."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maxk_lab.report.drawing.ranges import limits
from maxk_lab.report.drawing.style import finish
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.figures.board import Board, Panel
from maxk_lab.studies.training.figures.layout import k_axis, leaving, side_by_side
from maxk_lab.studies.training.figures.lines import as_seen, draw_behind, draw_line
from maxk_lab.studies.training.row.model import TrainingKey, TrainingRow
from maxk_lab.studies.training.told import has_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Letters above a small panel.
_LETTERS = 27
_UNBROKEN = "\x1f"
_TITLE_LINE = 0.16
# Interval by K of a row.
Curve = Mapping[int, Interval]


@dataclass(frozen=True)
class AgainstK:
    """A quantity that is drawn against K: its `curve` by row, and the words of its axis.

    `at_zero` draws the line at 0 that it is judged by.
    """

    curve: Callable[[TrainingRow], Curve]
    axis: str
    at_zero: bool = False


@dataclass(frozen=True)
class _Range:
    """The ends of an axis, None where all lines fit, and the rows that leave it, from where to."""

    ends: tuple[float, float] | None
    leaving: Mapping[TrainingKey, tuple[float, float]]


def final_curve(row: TrainingRow) -> Curve:
    """The final Max@K, for K = 1 up to all samples."""
    return _known(dict(enumerate(row.curve, start=1)))


def difference_curve(row: TrainingRow) -> Curve:
    """Its differences to the row that it is compared with."""
    return _known(row.differences)


def gap_curve(row: TrainingRow) -> Curve:
    """The gap by K, without those of the extras; empty where no optimum is known."""
    found = {} if row.measures is None else row.measures.gaps
    return _known({k: gap for k, gap in found.items() if isinstance(k, int)})


def against_k(board: Board, what: AgainstK, title: str) -> Figure | None:
    """The figure of a quantity, a panel for each of the board; None where no row has it."""
    kept = board.of([row for row in board.rows if what.curve(row)])
    if kept is None:
        return None
    shared = bool(kept.where)
    figure, axes = side_by_side(len(kept.panels), shared=shared, labels=("K", what.axis))
    for panel, at in zip(kept.panels, axes, strict=True):
        _draw(at, panel, kept, what, _range(kept.rows if shared else panel.rows, what))
    # Panels keep their height below titles of several lines.
    width, height = figure.get_size_inches()
    above = max(at.get_title().count("\n") for at in axes)
    figure.set_size_inches(width, height + _TITLE_LINE * above)
    finish(figure, axes, title)
    return figure


def _draw(axes: Axes, panel: Panel, board: Board, what: AgainstK, found: _Range) -> None:
    if what.at_zero:
        axes.axhline(0, color="black", linewidth=0.9, zorder=1)
    for row in panel.behind:
        curve = what.curve(row)
        draw_behind(axes, list(curve), [value.value for value in curve.values()])
    for row in panel.rows:
        curve = what.curve(row)
        values = as_seen(list(curve.values()), found.ends)
        # Markers at the powers of two: one per K would run into each other.
        marked = [i for i, k in enumerate(curve) if k & (k - 1) == 0]
        look, label = board.looks.of(row), board.looks.label(row)
        draw_line(axes, list(curve), values, row, look, label, marked)
    if found.ends is not None:
        axes.set_ylim(*found.ends)
    k_axis(axes, max((k for row in panel.rows for k in what.curve(row)), default=1))
    axes.set_title("\n".join(filter(None, [panel.title, *_off(panel, board, found)])))


def _off(panel: Panel, board: Board, found: _Range) -> Iterator[str]:
    """The names of the lines that leave the axis, in lines that fit above a panel."""
    gone = [board.looks.label(row) for row in panel.rows if row.key in found.leaving]
    if gone:
        # No name is broken, unless it is longer than a line.
        kept = ", ".join(name.replace(" ", _UNBROKEN) for name in gone)
        for line in textwrap.wrap(f"beyond the axis: {kept}", _LETTERS):
            yield line.replace(_UNBROKEN, " ")


def off_the_axis(board: Board, what: AgainstK) -> dict[TrainingKey, tuple[float, float]]:
    """The rows that leave the axis of their panel, from where to where."""
    kept = board.of([row for row in board.rows if what.curve(row)])
    if kept is None:
        return {}
    groups = [kept.rows] if kept.where else [panel.rows for panel in kept.panels]
    return {key: ends for rows in groups for key, ends in _range(rows, what).leaving.items()}


def _range(rows: Sequence[TrainingRow], what: AgainstK) -> _Range:
    """The range of the bulk of the rows where others would flatten it."""
    curves = [what.curve(row) for row in rows]
    ks = sorted({k for curve in curves for k in curve})
    lines = [[curve[k].value if k in curve else float("nan") for k in ks] for curve in curves]
    out = leaving(lines)
    if not any(out):
        return _Range(None, {})
    kept = [i for i, gone in enumerate(out) if not gone]
    inside = [lines[i] for i in kept]
    bands = [[end for value in curves[i].values() for end in (value.low, value.high)] for i in kept]
    gone = {
        row.key: (float(np.nanmin(line)), float(np.nanmax(line)))
        for row, line, is_out in zip(rows, lines, out, strict=True)
        if is_out
    }
    # A value may have no band.
    return _Range(limits(inside, [*inside, *bands]), gone)


def _known(curve: Curve) -> Curve:
    return {k: value for k, value in curve.items() if has_value(value)}
