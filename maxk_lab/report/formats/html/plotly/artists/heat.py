"""Heat maps and their scales of colours as traces of Plotly."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colorbar import Colorbar
from matplotlib.image import AxesImage

from maxk_lab.report.document import number
from maxk_lab.report.formats.html.plotly.colours import fixed
from maxk_lab.report.formats.html.plotly.grid import Frame
from maxk_lab.report.formats.html.plotly.panel import Look, Panel, Series
from maxk_lab.report.formats.html.plotly.words import (
    HOVER,
    UnconvertibleError,
    numbers,
    pixels,
    plain,
    words,
)

# Steps of a scale of colours.
_SHADES = 33


def read_mesh(panel: Panel, mesh: QuadMesh) -> Series:
    """Add a heat map whose cells have edges along the axes."""
    corners = np.asarray(mesh.get_coordinates(), dtype=float)
    x, y = corners[0, :, 0], corners[:, 0, 1]
    if not (np.allclose(corners[:, :, 0], x) and np.allclose(corners[:, :, 1], y[:, None])):
        raise UnconvertibleError("a heat map whose cells are not along the axes")
    shape = (len(y) - 1, len(x) - 1)
    array = mesh.get_array()
    if array is None or array.size != shape[0] * shape[1]:
        raise UnconvertibleError("a heat map with colours between its corners")
    return _heat_map(panel, mesh, array.reshape(shape), x, y)


def read_image(panel: Panel, image: AxesImage) -> Series:
    """Add a heat map from an image of numbers."""
    array = image.get_array()
    if array is None or array.ndim != 2:
        raise UnconvertibleError("a picture of colours, not of numbers")
    left, right, bottom, top = image.get_extent()
    x = np.linspace(left, right, array.shape[1] + 1)
    y = np.linspace(bottom, top, array.shape[0] + 1)
    return _heat_map(panel, image, array if image.origin == "lower" else array[::-1], x, y)


def _heat_map(panel: Panel, shown: Any, array: Any, x: Any, y: Any) -> Series:
    values = numbers(array)
    if x[0] > x[-1]:
        x, values = x[::-1], values[:, ::-1]
    if y[0] > y[-1]:
        y, values = y[::-1], values[::-1]
    with np.errstate(all="ignore"):
        shades = numbers(shown.norm(np.ma.masked_invalid(values)))
    names = [
        [scale.said(float(at)) for at in (edges[1:] + edges[:-1]) / 2]
        for scale, edges in ((panel.x, x), (panel.y, y))
    ]
    trace = {
        "type": "heatmap",
        "x": panel.x.places(x),
        "y": panel.y.places(y),
        "z": [plain(row) for row in np.clip(shades, 0.0, 1.0)],
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": _colours(shown.cmap),
        "showscale": False,
        # The numbers themselves: `z` has the places in the scale of colours.
        "meta": {"values": [plain(row) for row in values]},
        "customdata": [
            [
                words(f"{row}, {column}: {number(float(v))}")
                for column, v in zip(names[0], line, strict=True)
            ]
            for row, line in zip(names[1], values, strict=True)
        ],
        "hovertemplate": HOVER,
    }
    return panel.add(trace, Look(""), "")


def read_colorbar(panel: Panel, axes: Axes, frame: Frame) -> Series:
    """Add the scale of colours that these axes are: a trace without a point."""
    bar: Colorbar = axes._colorbar  # type: ignore[attr-defined]
    box = axes.get_position()
    (_, low), (_, high) = frame.inside(box.x0, box.y0), frame.inside(box.x1, box.y1)
    ticks = [float(tick) for tick in bar.get_ticks()]
    labels = bar.long_axis.get_major_formatter().format_ticks(ticks)
    title = bar.long_axis.get_label()
    marker = {
        "color": [0],
        "cmin": 0,
        "cmax": 1,
        "colorscale": _colours(bar.cmap),
        "showscale": True,
        "colorbar": {
            "tickvals": plain(bar.norm(np.array(ticks))),
            "ticktext": list(map(words, labels)),
            "title": {
                "text": words(title.get_text()),
                "side": "right",
                "font": {"size": pixels(title.get_fontsize())},
            },
            "thickness": 14,
            "outlinewidth": 0,
            "x": 1.01,
            "y": round((low + high) / 2, 4),
            "len": round(high - low, 4),
        },
    }
    trace = {"type": "scatter", "mode": "markers", "x": [None], "y": [None], "marker": marker}
    return panel.add({**trace, "hoverinfo": "skip"}, Look(""), "")


def _colours(colormap: Any) -> list[list[Any]]:
    steps = np.linspace(0.0, 1.0, _SHADES)
    return [[round(float(step), 4), fixed(colormap(step))] for step in steps]
