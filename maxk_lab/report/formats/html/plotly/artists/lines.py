"""Lines, markers and intervals as traces of Plotly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D

from maxk_lab.report.formats.html.plotly.artists.hover import said, told
from maxk_lab.report.formats.html.plotly.artists.looks import (
    dash_of,
    line_look,
    marked,
    marker_of,
    symbol_of,
)
from maxk_lab.report.formats.html.plotly.artists.points import read_segments
from maxk_lab.report.formats.html.plotly.panel import Panel, Series
from maxk_lab.report.formats.html.plotly.words import pixels, plain

_SHAPES = {"default": "linear", "steps": "vh", "steps-pre": "vh", "steps-post": "hv"}
_SHAPES |= {"steps-mid": "hvh"}
# A line across a whole panel goes on beyond it, for whoever looks beyond.
_BEYOND = 5.0


def read_line(panel: Panel, line: Line2D, ends: Any = None, label: Any = None) -> Series | None:
    """Add a line; `ends` [2, N] are the ends of the intervals of its values, where it has any."""
    dash, marker = dash_of(line), marker_of(line)
    points = panel.data(line.get_xydata(), line.get_transform())
    if not (dash or marker) or not np.isfinite(points).all(axis=1).any():
        return None
    if not all(panel.along(line.get_transform())):
        points = _longer(points, line, panel)
    which = np.array(marked(line.get_markevery(), len(points))) if marker else np.array([])
    sparse = bool(dash and marker and not which.all())
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "+".join(["lines"] * bool(dash) + ["markers"] * bool(marker and not sparse)),
        "x": panel.x.places(points[:, 0]),
        "y": panel.y.places(points[:, 1]),
    }
    if dash:
        trace["line"] = _stroke(panel, line, dash)
    if marker:
        trace["marker"] = _marker(panel, line)
    if not line.get_clip_on():
        trace["cliponaxis"] = False
    told(panel, trace, points, ends)
    named = line.get_label() if label is None else label
    series = panel.add(trace, line_look(line), named)
    if sparse:
        _add_markers(panel, series, np.flatnonzero(which))
    return series


def _add_markers(panel: Panel, line: Series, which: Any) -> None:
    """Add the markers of a line that not all of its points have.

    With a gap between each two, so that nothing joins them but the legend shows line and marker.
    """
    trace = {key: line.trace[key] for key in ("type", "line", "marker")}
    for axis in ("x", "y"):
        trace[axis] = [v for i in which for v in (line.trace[axis][i], None)]
    trace |= {"mode": "lines+markers", "hoverinfo": "skip"}
    line.trace.pop("marker")
    panel.add(trace, line.look, line.label).follows = line


def _stroke(panel: Panel, line: Line2D, dash: str) -> dict[str, Any]:
    shape = _SHAPES.get(line.get_drawstyle(), "linear")
    told = {
        "color": panel.inks.ink(line.get_color(), line.get_alpha()),
        "width": max(1.0, pixels(line.get_linewidth())),
        "dash": dash,
    }
    return told if shape == "linear" else told | {"shape": shape}


def read_errorbars(panel: Panel, container: ErrorbarContainer) -> Series | None:
    """Add points with their intervals, which may be longer on one side."""
    line, _, bars = container.lines
    found: dict[str, Any] = dict(
        zip(["x"] * container.has_xerr + ["y"] * container.has_yerr, bars, strict=True)
    )
    if line is None:
        return _bare(panel, found, container.get_label())
    points = panel.data(line.get_xydata(), line.get_transform())
    ends = {which: _ends(points, found[which], which) for which in found}
    upright = "y" if "y" in ends else "x"
    series = read_line(panel, line, ends.get(upright), container.get_label())
    if series is None:
        return _bare(panel, found, container.get_label())
    for which, (low, high) in ends.items():
        scale = panel.x if which == "x" else panel.y
        middle = points[:, 0 if which == "x" else 1]
        at, low, high = (_numbers(scale.places(values)) for values in (middle, low, high))
        caps = [cap.get_markersize() for cap in container.lines[1]]
        series.trace[f"error_{which}"] = {
            "type": "data",
            "symmetric": False,
            "array": plain(np.maximum(0.0, high - at)),
            "arrayminus": plain(np.maximum(0.0, at - low)),
            "color": panel.inks.ink(found[which].get_colors()[0]),
            "thickness": max(1.0, pixels(float(found[which].get_linewidths()[0]))),
            "width": pixels(max(caps)) / 2 if caps else 0,
        }
    if "x" in ends and "y" not in ends:
        series.trace["customdata"] = said(panel, points, ends["x"], along="x")
    return series


def _bare(panel: Panel, found: dict[str, Any], label: Any) -> Series | None:
    series = None
    for bars in found.values():
        series = read_segments(panel, bars, label if series is None else None)
    return series


def _longer(points: Any, line: Line2D, panel: Panel) -> Any:
    """The points of a line that spans the panel, far beyond both of its sides."""
    own = panel.along(line.get_transform())
    points = points.copy()
    for column, scale in ((0, panel.x), (1, panel.y)):
        if not own[column] and not scale.is_log and len(points) == 2:
            low, high = points[:, column]
            points[:, column] = low - _BEYOND * (high - low), high + _BEYOND * (high - low)
    return points


def _marker(panel: Panel, line: Line2D) -> dict[str, Any]:
    face, edge, alpha = line.get_markerfacecolor(), line.get_markeredgecolor(), line.get_alpha()
    hollow = isinstance(face, str) and face.lower() == "none"
    return {
        "symbol": symbol_of(line.get_marker()),
        "size": pixels(line.get_markersize()) * (0.5 if line.get_marker() == "." else 1),
        "color": "rgba(0,0,0,0)" if hollow else panel.inks.ink(face, alpha),
        "line": {"color": panel.inks.ink(edge, alpha), "width": pixels(line.get_markeredgewidth())},
    }


def _ends(points: Any, bars: Any, which: str) -> Any:
    """The ends [2, N] of the intervals of these points; NaN where one has none."""
    column = 0 if which == "x" else 1
    found = np.full((2, len(points)), np.nan)
    segments = [path.vertices for path in bars.get_paths()]
    if len(segments) == len(points):
        for index, segment in enumerate(segments):
            found[:, index] = segment[:, column]
        return found
    # Not every point has a bar: each bar is that of the point in its place.
    for segment in segments:
        at = np.flatnonzero(points[:, 1 - column] == segment[0, 1 - column])
        found[:, at] = segment[:, [column]]
    return found


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values])
