"""Surfaces as traces of Plotly: bands and other shapes, bars, and coloured cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.container import BarContainer
from matplotlib.patches import Patch, Rectangle

from maxk_lab.report.document import number
from maxk_lab.report.formats.html.plotly.colours import fixed, opaque
from maxk_lab.report.formats.html.plotly.panel import Look, Panel, Series
from maxk_lab.report.formats.html.plotly.words import (
    HOVER,
    UnconvertibleError,
    numbers,
    pixels,
    plain,
    words,
)


def read_area(panel: Panel, area: Any) -> Series | None:
    """Add a band, or any polygons of a `PolyCollection`: a trace for each."""
    offsets = np.ma.filled(area.get_offsets(), 0.0)
    if offsets.size and np.any(offsets != 0):
        raise UnconvertibleError("polygons that are repeated over a panel")
    area.update_scalarmappable()
    faces, edges, widths = area.get_facecolors(), area.get_edgecolors(), area.get_linewidths()
    series = None
    for index, path in enumerate(area.get_paths()):
        face = faces[index % len(faces)] if len(faces) else "none"
        width = float(widths[index % len(widths)]) if len(widths) and len(edges) else 0.0
        edge = edges[index % len(edges)] if width else face
        points = panel.data(path.vertices, area.get_transform())
        series = _polygon(panel, [points], face, edge, width, area.get_label())
    return series


def read_patch(panel: Panel, patch: Patch) -> Series:
    """Add one closed shape."""
    path: Any = patch.get_path().transformed(patch.get_patch_transform()).cleaned(curves=False)
    parts = [
        panel.data(part, Artist.get_transform(patch))
        for part in path.to_polygons(closed_only=False)
        if len(part)
    ]
    face = patch.get_facecolor() if patch.get_fill() else "none"
    width = patch.get_linewidth()
    return _polygon(panel, parts, face, patch.get_edgecolor(), width, patch.get_label())


def _polygon(
    panel: Panel, parts: Sequence[Any], face: Any, edge: Any, width: float, label: Any
) -> Series:
    gap = np.full((1, 2), np.nan)
    points = np.concatenate([row for part in parts for row in (part, gap)][:-1] or [gap])
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": panel.x.places(points[:, 0]),
        "y": panel.y.places(points[:, 1]),
        "fill": "toself",
        "fillcolor": panel.inks.ink(face),
        "line": {"color": panel.inks.ink(edge), "width": pixels(width)},
        "hoverinfo": "skip",
    }
    return panel.add(trace, Look(opaque(face)), label)


def read_bars(panel: Panel, container: BarContainer) -> Series:
    """Add the bars of one series, with their intervals; a bar may begin where another one ends."""
    flat = container.orientation == "horizontal"
    values = numbers(container.datavalues).tolist()
    boxes = [_box(bar) for bar in container.patches]
    place = panel.y if flat else panel.x
    heads = [place.said(sum(box[flat]) / 2) for box in boxes]
    errors: Any = container.errorbar
    ends = None if errors is None else _reach(errors.lines[2][0], 0 if flat else 1)
    said = []
    for index, (head, value) in enumerate(zip(heads, values, strict=True)):
        told = number(value)
        if ends is not None and ends[0][index] < ends[1][index]:
            told += f" [{number(ends[0][index])}, {number(ends[1][index])}]"
        said.append(words(f"{told} at {head}"))
    trace = _boxes(panel, boxes, container.patches, said, flat=flat)
    if ends is not None:
        tops = np.array([box[1 - flat][1] for box in boxes])
        trace["error_x" if flat else "error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": plain(np.maximum(0.0, ends[1] - tops)),
            "arrayminus": plain(np.maximum(0.0, tops - ends[0])),
            "color": panel.inks.ink(errors.lines[2][0].get_colors()[0]),
        }
    colour = opaque(container.patches[0].get_facecolor()) if container.patches else ""
    return panel.add(trace, Look(colour), container.get_label())


def read_rectangles(panel: Panel, patches: Sequence[Rectangle]) -> Series:
    """Add rectangles that are no bars, such as the coloured cells of a table, as one trace."""
    boxes = [_box(patch) for patch in patches]
    texts = [(t.get_position(), t.get_text()) for t in panel.axes.texts if t.get_visible()]
    said = []
    for (left, right), (low, high) in boxes:
        names = [panel.y.said((low + high) / 2), panel.x.said((left + right) / 2)]
        inside = [
            text
            for (x, y), text in texts
            if isinstance(x, float | int)
            and isinstance(y, float | int)
            and min(left, right) < x < max(left, right)
            and min(low, high) < y < max(low, high)
        ]
        said.append(words(": ".join([", ".join(names), *inside])))
    trace = _boxes(panel, boxes, patches, said, flat=False)
    return panel.add(trace, Look(opaque(patches[0].get_facecolor())), patches[0].get_label())


def is_upright(panel: Panel, patch: Patch) -> bool:
    """Whether this is a rectangle that lies along axes which a bar of Plotly's can have."""
    if not isinstance(patch, Rectangle) or patch.get_angle() or panel.x.is_log or panel.y.is_log:
        return False
    return all(panel.along(Artist.get_transform(patch)))


def _box(patch: Rectangle) -> tuple[tuple[float, float], tuple[float, float]]:
    """Its ends along x and y, each from where it begins: a bar may hang below that."""
    x, y = patch.get_xy()
    return (float(x), float(x + patch.get_width())), (float(y), float(y + patch.get_height()))


def _boxes(
    panel: Panel, boxes: Sequence[Any], patches: Sequence[Patch], said: list[str], *, flat: bool
) -> dict[str, Any]:
    along, across = (panel.x, panel.y) if flat else (panel.y, panel.x)
    start, end = (_places(along, [box[1 - flat][i] for box in boxes]) for i in (0, 1))
    left, right = (_places(across, [box[flat][i] for box in boxes]) for i in (0, 1))
    edges = [patch.get_edgecolor() if patch.get_linewidth() else "none" for patch in patches]
    return {
        "type": "bar",
        "orientation": "h" if flat else "v",
        "x" if flat else "y": plain(end - start),
        "base": plain(start),
        "y" if flat else "x": plain((left + right) / 2),
        "width": plain(abs(right - left)),
        "marker": {
            "color": [fixed(patch.get_facecolor()) for patch in patches],
            "line": {
                "color": [panel.inks.ink(edge) for edge in edges],
                "width": [pixels(patch.get_linewidth()) for patch in patches],
            },
        },
        "customdata": said,
        "hovertemplate": HOVER,
    }


def _places(scale: Any, values: Sequence[float]) -> Any:
    return np.array([np.nan if v is None else v for v in scale.places(values)])


def _reach(bars: Any, column: int) -> Any:
    return np.array([path.vertices[:, column] for path in bars.get_paths()]).T
