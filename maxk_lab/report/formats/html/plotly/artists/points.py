"""Points of a scatter plot, and lines that are not joined, as traces of Plotly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxk_lab.report.document import number
from maxk_lab.report.formats.html.plotly.artists.hover import told
from maxk_lab.report.formats.html.plotly.artists.looks import path_symbol
from maxk_lab.report.formats.html.plotly.colours import opaque
from maxk_lab.report.formats.html.plotly.panel import Look, Panel, Series
from maxk_lab.report.formats.html.plotly.words import pixels, plain


def read_segments(panel: Panel, lines: Any, label: Any = None) -> Series | None:
    """Add the separate lines of a `LineCollection`, one trace for each colour."""
    colours, widths = lines.get_colors(), lines.get_linewidths()
    groups: dict[tuple[str, float], tuple[Any, list[Any]]] = {}
    for index, path in enumerate(lines.get_paths()):
        colour, width = colours[index % len(colours)], float(widths[index % len(widths)])
        key = panel.inks.ink(colour), width
        groups.setdefault(key, (colour, []))[1].append(path.vertices)
    series = None
    for (ink, width), (colour, found) in groups.items():
        points = panel.data(_with_gaps(found), lines.get_transform())
        trace = {
            "type": "scatter",
            "mode": "lines",
            "x": panel.x.places(points[:, 0]),
            "y": panel.y.places(points[:, 1]),
            "line": {"color": ink, "width": max(1.0, pixels(width))},
            "hoverinfo": "skip",
        }
        named = lines.get_label() if label is None else label
        series = panel.add(trace, Look(opaque(colour)), named)
    return series


def read_points(panel: Panel, points: Any) -> Series:
    """Add the points of a scatter plot, a `PathCollection`, each with its own size and colour."""
    points.update_scalarmappable()
    at = panel.data(points.get_offsets(), points.get_offset_transform())
    faces, edges = points.get_facecolors(), points.get_edgecolors()
    filled = len(faces) > 0
    colours = faces if filled else edges
    symbol = path_symbol(points.get_paths()[0]) if points.get_paths() else "circle"
    marker: dict[str, Any] = {
        "symbol": symbol if filled else f"{symbol}-open",
        "size": _one([pixels(float(np.sqrt(size))) for size in points.get_sizes()]),
        "color": _one([panel.inks.ink(colour) for colour in colours]),
    }
    if filled and len(edges):
        width = float(np.max(points.get_linewidths(), initial=0.0))
        edge = _one([panel.inks.ink(colour) for colour in edges])
        marker["line"] = {"color": edge, "width": pixels(width)}
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": panel.x.places(at[:, 0]),
        "y": panel.y.places(at[:, 1]),
        "marker": marker,
    }
    told(panel, trace, at, None)
    shades = points.get_array()
    if shades is not None:
        trace["meta"] = {"values": plain(shades)}
        pairs = zip(trace["customdata"], np.ma.filled(shades, np.nan), strict=False)
        trace["customdata"] = [f"{text}: {number(float(shade))}" for text, shade in pairs]
    return panel.add(
        trace, Look(opaque(colours[0]) if len(colours) else "", symbol), points.get_label()
    )


def _with_gaps(parts: Sequence[Any]) -> Any:
    gap = np.full((1, 2), np.nan)
    return np.concatenate([row for part in parts for row in (part, gap)]) if parts else gap


def _one(values: Sequence[Any]) -> Any:
    """The value that all are, or all of them."""
    return values[0] if len(set(values)) == 1 else list(values)
