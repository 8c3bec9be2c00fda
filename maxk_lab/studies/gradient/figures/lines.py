"""The line figures that a sweep file declares: one measure against one thing that it varies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk_lab.report.drawing.axes import logarithmic, number_axis
from maxk_lab.report.drawing.style import bars, finish, legend_width, look, looks, panels
from maxk_lab.report.naming import spelled
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.columns import OF_RATIOS
from maxk_lab.studies.gradient.figures.questions import about
from maxk_lab.studies.gradient.row.model import DISTANCE, GradientRow
from maxk_lab.studies.gradient.row.order import method_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from maxk_lab.sweeps.spec.figures import Figure as Declared

_AXES = ("estimator", "baseline", "n", "k", "stage")
_WORDS = {
    "n": "samples n",
    "k": "K",
    "stage": "steps of warm-up",
    DISTANCE: "distance of the sampling policy",
}
_COLUMNS = 4
# The styles of the third thing that tells lines apart: a full marker or an empty one.
_FILLS: tuple[dict[str, Any], ...] = ({}, {"markerfacecolor": "white"})
_LEGEND_LINES = 7
_WIDEST = 11.0


@dataclass(frozen=True)
class _Line:
    """The values that the rows of one line share, and the look of the line."""

    values: tuple[Any, ...]
    label: str
    unbiased: bool
    style: dict[str, Any]


def declared_figure(
    rows: Sequence[GradientRow], declared: Declared, title: str, level: float
) -> Figure | None:
    """The figure of one environment; None where no row has the measure.

    Rows that were derived biased are dashed and say so. Bars are intervals; a measure that is exact
    for its instances and has none is a bare point. A bias that is proven to be none is rounding: on
    a logarithmic axis it stands at the lower edge, where it does not squeeze the others.
    """
    known = [row for row in rows if _drawable(row, declared)]
    if not known:
        return None
    shown = (
        list(dict.fromkeys(value_of(row, declared.panels) for row in known))
        if declared.panels
        else [None]
    )
    columns = min(len(shown), _COLUMNS)
    lines_of_panels = -(-len(shown) // columns)
    lines = _lines(known, declared)
    wide = min(_WIDEST, legend_width([line.label for line in lines], _LEGEND_LINES))
    size = (max(5.6, 1.2 + 2.6 * columns, wide), 1.2 + 2.7 * lines_of_panels)
    figure, axes = panels(lines_of_panels, columns, size)
    positions = sorted({float(value_of(row, declared.against)) for row in known})
    edges = _edges(known, declared)
    for panel, value in zip(axes.flat, shown, strict=False):
        here = [
            row
            for row in known
            if declared.panels is None or value_of(row, declared.panels) == value
        ]
        if declared.panels is not None:
            panel.set_title(f"{_word(declared.panels)} = {_spelled(value)}")
        log = number_axis(panel, positions)
        if declared.scale == "log":
            logarithmic(panel, "y")
        for index, line in enumerate(lines):
            members = [row for row in here if _place(row, declared) == line.values]
            _draw(panel, members, line, declared, _shift(index, len(lines), positions, log), edges)
    for panel in axes.flat[len(shown) :]:
        panel.set_axis_off()
    for panel in axes.flat[max(0, len(shown) - columns) : len(shown)]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel(_WORDS.get(declared.against, _word(declared.against)))
    for line_of_axes in axes:
        line_of_axes[0].set_ylabel(MEASURES.get(declared.metric).heading)
    said = f"bars: {level:.0%} intervals {about(known, declared.metric)}"
    if any(_is_rounding(row, declared) for row in known):
        said += "; at the lower edge: unbiased, by enumeration"
    finish(figure, axes, f"{title}\n{said}")
    return figure


def value_of(row: GradientRow, axis: str) -> Any:
    """The row's value of an axis of the grid or of a setting.

    A policy that samples itself is at distance 0.
    """
    if axis in _AXES:
        return getattr(row.key, axis)
    return dict(row.key.setting).get(axis, 0.0 if axis == DISTANCE else None)


def _measured(row: GradientRow, metric: str) -> Interval:
    if metric in row.intervals:
        return row.intervals[metric]
    if metric in row.anatomy:
        # Exact for its instances, and so without an interval.
        return Interval(row.anatomy[metric], float("nan"), float("nan"), 0.95)
    return undefined(0.95, "not measured")


def _drawable(row: GradientRow, declared: Declared) -> bool:
    found = _measured(row, declared.metric)
    if (
        row.units is None
        or not math.isfinite(found.value)
        or value_of(row, declared.against) is None
    ):
        return False
    return (row.enumerated or found.known) and (declared.scale != "log" or found.value > 0)


def _axes_of_lines(declared: Declared) -> tuple[str, ...]:
    """The axes that tell lines apart; ratios of two policies depend on no estimator or baseline."""
    own = declared.metric in OF_RATIOS
    return tuple(axis for axis in declared.lines if not (own and axis in ("estimator", "baseline")))


def _place(row: GradientRow, declared: Declared) -> tuple[Any, ...]:
    return tuple(value_of(row, axis) for axis in _axes_of_lines(declared))


def _lines(rows: Sequence[GradientRow], declared: Declared) -> list[_Line]:
    ordered = sorted(rows, key=method_order)
    places = list(dict.fromkeys(_place(row, declared) for row in ordered))
    varying = [
        i for i in range(len(_axes_of_lines(declared))) if len({place[i] for place in places}) > 1
    ]
    styles = _styles([tuple(place[i] for i in varying) for place in places])
    found = []
    for place, style in zip(places, styles, strict=True):
        members = [row for row in rows if _place(row, declared) == place]
        unbiased = declared.metric in OF_RATIOS or all(row.catalogued_unbiased for row in members)
        label = _label(members[0], place, _axes_of_lines(declared), varying) + (
            "" if unbiased else " (biased)"
        )
        found.append(_Line(place, label, unbiased, style))
    return found


def _styles(places: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """A colour per first value, a marker per second, a fill per third, if all combinations exist.

    Elsewhere each line has its own look: where one estimator is compared with single others, most
    lines share no colour.
    """
    values = [list(dict.fromkeys(column)) for column in zip(*places, strict=True)]
    whole = math.prod(map(len, values)) == len(places)
    if (
        not whole
        or not 2 <= len(values) <= 3
        or (len(values) == 3 and len(values[2]) > len(_FILLS))
    ):
        return [look(index) for index in range(len(places))]
    numbers = [
        [column.index(value) for column, value in zip(values, place, strict=True)]
        for place in places
    ]
    styles = looks([first for first, *_ in numbers], [str(second) for _, second, *_ in numbers])
    if len(values) == 2:
        return styles
    return [style | _FILLS[third] for style, (*_, third) in zip(styles, numbers, strict=True)]


def _label(
    row: GradientRow, place: Sequence[Any], axes: Sequence[str], varying: Sequence[int]
) -> str:
    parts = []
    for i in varying or range(len(axes)):
        if axes[i] == "baseline" and not row.key.method.takes_baseline and varying[1:]:
            continue
        named = axes[i] in ("estimator", "baseline")
        parts.append(str(place[i]) if named else f"{_word(axes[i])} = {_spelled(place[i])}")
    return ", ".join(parts)


def _is_rounding(row: GradientRow, declared: Declared) -> bool:
    return (
        declared.metric == "squared_bias"
        and declared.scale == "log"
        and row.bias.verdict == "unbiased"
    )


def _edges(rows: Sequence[GradientRow], declared: Declared) -> tuple[float, float]:
    """The place of what is nothing, a tenth of the least that is something, and the end of bars."""
    known = [_measured(row, declared.metric) for row in rows if not _is_rounding(row, declared)]
    low = min((found.value for found in known), default=1.0)
    high = max(
        (end for found in known for end in (found.value, found.high) if math.isfinite(end)),
        default=1.0,
    )
    return low / 10, 2 * high


def _draw(
    axes: Axes,
    rows: Sequence[GradientRow],
    line: _Line,
    declared: Declared,
    shift: tuple[float, float],
    edges: tuple[float, float],
) -> None:
    # One row for each point: those of ratios have one number for all estimators.
    ordered = list({float(value_of(row, declared.against)): row for row in rows}.values())
    ordered.sort(key=lambda row: float(value_of(row, declared.against)))
    low, high = edges
    values = [
        Interval(low, low, low, 1.0)
        if _is_rounding(row, declared)
        else _measured(row, declared.metric)
        for row in ordered
    ]
    factor, offset = shift
    axes.errorbar(
        [float(value_of(row, declared.against)) * factor + offset for row in ordered],
        [value.value for value in values],
        # Without the bars that are unknown.
        yerr=np.nan_to_num(np.minimum(bars(values), high), nan=0.0),
        **line.style,
        linestyle="-" if line.unbiased else "--",
        markersize=3.8,
        linewidth=1.15,
        elinewidth=0.9,
        capsize=2,
        label=line.label,
    )


def _shift(index: int, of: int, positions: Sequence[float], log: bool) -> tuple[float, float]:
    """(factor, offset) that keeps bars of different lines apart, far less than points are."""
    step = 0.0 if of == 1 else index / (of - 1) - 0.5
    if log:
        near = min((b / a for a, b in pairwise(positions)), default=2.0)
        return float(near ** (0.12 * step)), 0.0
    near = min((b - a for a, b in pairwise(positions)), default=1.0)
    return 1.0, 0.12 * near * step


def _word(axis: str) -> str:
    return {"k": "K"}.get(axis, axis.rpartition(".")[2].replace("_", " "))


def _spelled(value: Any) -> str:
    return "none" if value is None else spelled(value)
