"""Figures of trained policies against K: the final Max@K curve, its differences and its gap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from maxk_lab.report.drawing.axes import logarithmic
from maxk_lab.report.drawing.ranges import limits, outside, where
from maxk_lab.report.drawing.style import finish, legend_width, panels
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.ending.sheets import optimum_words
from maxk_lab.studies.training.figures.curves import (
    MANY,
    band_words,
    cost_words,
    draw_line,
    row_looks,
    unbanded,
    without_band,
)
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import labels
from maxk_lab.studies.training.section.notes import over_what
from maxk_lab.studies.training.told import has_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEGEND_LINES = 6
_WIDEST = 9.0
# Interval by K of a row.
Curve = Mapping[int, Interval]


def final_figure(rows: Sequence[TrainingRow], title: str, level: float) -> Figure:
    """The held-out Max@K curve at the end of training, for K = 1 up to all samples."""
    banded = not unbanded(rows)
    axis, said = f"held-out Max@K{cost_words(rows)}", f"{title}\n{band_words(rows, level)}"
    return _figure(rows, lambda row: dict(enumerate(row.curve, start=1)), axis, said, banded=banded)


def difference_figure(rows: Sequence[TrainingRow], title: str, level: float) -> Figure:
    """The final Max@K curves minus those that they are compared with, paired by seed.

    Above zero is better, and crossing curves cross zero.
    """
    shown = [row for row in rows if any(has_value(found) for found in row.differences.values())]
    named = dict(zip((row.key.path for row in rows), labels(rows), strict=True))
    # Where starts differ so do the rows compared with: that of most rows is in the title, and any
    # other beside its rows.
    first, *others = (name for name, _ in Counter(row.compared_with for row in shown).most_common())
    paired = "instance" if all(row.one_seed for row in rows) else "seed"
    bands = f"bands: {level:.0%} intervals over {over_what(rows)}"
    said = f"minus {named[first]}, paired by {paired}; {bands}"

    def label(row: TrainingRow, own: str) -> str:
        return f"{own}, minus {named[row.compared_with]}" if row.compared_with in others else own

    figure = _figure(
        shown,
        lambda row: row.differences,
        "difference of Max@K",
        f"{title}\n{said}",
        styled=rows,
        label=label,
    )
    figure.axes[0].axhline(0, color="black", linewidth=0.9, zorder=1)
    return figure


def gap_figure(rows: Sequence[TrainingRow], title: str, level: float) -> Figure:
    """The optimality gap of the best of K samples at the end of training."""
    shown = [row for row in rows if any(has_value(found) for found in gaps(row).values())]
    axis, said = (
        "optimality gap in %\n(lower is better)",
        f"{optimum_words(rows)}; {band_words(rows, level)}",
    )
    return _figure(shown, gaps, axis, f"{title}\n{said}", styled=rows, banded=not unbanded(rows))


def gaps(row: TrainingRow) -> Curve:
    """The gap by K, without those of the extras; empty where no optimum is known."""
    found = {} if row.measures is None else row.measures.gaps
    return {k: gap for k, gap in found.items() if isinstance(k, int)}


def _figure(
    rows: Sequence[TrainingRow],
    curve: Callable[[TrainingRow], Curve],
    axis: str,
    title: str,
    *,
    styled: Sequence[TrainingRow] = (),
    banded: bool = True,
    label: Callable[[TrainingRow, str], str] = lambda row, own: own,
) -> Figure:
    """One panel against K; colours and markers are those of the figures of the rows `styled`."""
    of_all = styled or rows
    looks = dict(zip((row.key for row in of_all), row_looks(of_all), strict=True))
    names = dict(zip((row.key for row in of_all), labels(of_all), strict=True))
    known = [{k: value for k, value in curve(row).items() if has_value(value)} for row in rows]
    ends, notes = _range(known)
    told = [
        ", ".join(filter(None, [label(row, names[row.key]), note]))
        for row, note in zip(rows, notes, strict=True)
    ]
    wide = max(7.5, min(_WIDEST, legend_width(told, _LEGEND_LINES)))
    figure, axes = panels(1, 1, (5.8 if len(rows) <= MANY else wide, 3.6))
    if ends is not None:
        axes[0][0].set_ylim(*ends)
    for row, found, note, named in zip(rows, known, notes, told, strict=True):
        # A line outside the axes has no band: it would reach in, and nobody could tell whose it is.
        values = [value if banded and not note else without_band(value) for value in found.values()]
        # Markers at the powers of two: one per K would run into each other.
        at = [i for i, k in enumerate(found) if k & (k - 1) == 0]
        style = looks[row.key]
        draw_line(axes[0][0], list(found), values, row, style, len(rows), named, at)
    _k_axis(axes[0][0], max((k for found in known for k in found), default=1))
    axes[0][0].set(xlabel="K", ylabel=axis)
    finish(figure, axes, title)
    return figure


def _range(curves: Sequence[Curve]) -> tuple[tuple[float, float] | None, list[str]]:
    """The range of the bulk of curves where others would flatten it, and notes on the curves."""
    ks = sorted({k for curve in curves for k in curve})
    lines = [[curve[k].value if k in curve else float("nan") for k in ks] for curve in curves]
    bands = [
        [end for value in curve.values() for end in (value.low, value.high)] for curve in curves
    ]
    out = [False] * len(lines) if not all(curves) else outside(lines)
    if not any(out):
        return None, [""] * len(lines)
    kept = [i for i, is_out in enumerate(out) if not is_out]
    inside = [lines[i] for i in kept]
    # A value may have no band.
    ends = limits(inside, [*inside, *(bands[i] for i in kept)])
    return ends, [
        where(line, ends) if is_out else "" for line, is_out in zip(lines, out, strict=True)
    ]


def _k_axis(axes: Axes, most: int) -> None:
    ticks = [2**power for power in range(most.bit_length()) if 2**power <= most]
    logarithmic(axes, "x", 2)
    axes.set_xticks(ticks, [str(k) for k in ticks])
