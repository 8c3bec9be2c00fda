"""Markers and dashes, as matplotlib draws them and as Plotly calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle

from maxk_lab.report.formats.html.plotly.colours import opaque
from maxk_lab.report.formats.html.plotly.panel import Look
from maxk_lab.report.formats.html.plotly.words import UnconvertibleError

_SYMBOLS = {
    "o": "circle",
    ".": "circle",
    ",": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "<": "triangle-left",
    ">": "triangle-right",
    "D": "diamond",
    "d": "diamond-tall",
    "P": "cross",
    "X": "x",
    "*": "star",
    "p": "pentagon",
    "h": "hexagon",
    "H": "hexagon2",
    "8": "octagon",
    "+": "cross-thin-open",
    "x": "x-thin-open",
    "|": "line-ns-open",
    "_": "line-ew-open",
    "1": "y-down-open",
    "2": "y-up-open",
    "3": "y-left-open",
    "4": "y-right-open",
}
_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_NONE = ("", " ", "None", "none", None)


def dash_of(line: Line2D) -> str:
    """The dashes of a line; empty where its points are not joined."""
    if line.get_linestyle() in _NONE or line.get_linewidth() == 0:
        return ""
    return _DASHES[str(line.get_linestyle())]


def marker_of(line: Line2D) -> Any:
    """The marker of a line; empty where it has none."""
    return "" if line.get_marker() in _NONE or line.get_markersize() == 0 else line.get_marker()


def symbol_of(marker: Any) -> str:
    """The symbol of a marker."""
    try:
        return _SYMBOLS[marker]
    except (KeyError, TypeError):
        raise UnconvertibleError(f"no symbol is like the marker {marker!r}") from None


def path_symbol(path: Any) -> str:
    """The symbol of the marker whose path this is."""
    for marker, symbol in _SYMBOLS.items():
        style = MarkerStyle(marker)
        own: Any = style.get_path().transformed(style.get_transform()).vertices
        if own.shape == path.vertices.shape and np.allclose(own, path.vertices):
            return symbol
    raise UnconvertibleError("no symbol is like the markers of a scatter plot")


def line_look(line: Line2D) -> Look:
    """The look by which a line is known."""
    return Look(opaque(line.get_color()), str(marker_of(line)), dash_of(line))


def marked(every: Any, count: int) -> list[bool]:
    """Whether each of so many points has a marker, as `markevery` says; all, for a distance."""
    shown = np.zeros(count, dtype=bool)
    if every is None or isinstance(every, float):
        shown[:] = True
    elif isinstance(every, int):
        shown[::every] = True
    elif isinstance(every, tuple) and len(every) == 2 and all(isinstance(n, int) for n in every):
        shown[every[0] :: every[1]] = True
    elif isinstance(every, tuple):
        shown[:] = True
    else:
        shown[every] = True
    return shown.tolist()
