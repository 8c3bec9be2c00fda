"""Bands and the lines that they are the intervals of, which nothing but their looks ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D

from maxk_lab.report.formats.html.plotly.colours import opaque
from maxk_lab.report.formats.html.plotly.panel import Panel

# At least this share of the values of a line are within its band: a point may lie outside.
_WITHIN = 0.6


def banded(
    panel: Panel, lines: Sequence[Line2D], areas: Sequence[PolyCollection]
) -> dict[int, tuple[PolyCollection, Any]]:
    """The band of each line that has one, and its ends [2, N], by the line's id.

    That is the first band that no other line has, with the same colour, with an interval at every
    place of the line that has a value, and with most of the values within.
    """
    found: dict[int, tuple[PolyCollection, Any]] = {}
    reaches = [(area, _reach(panel, area)) for area in areas]
    for line in lines:
        points = panel.data(line.get_xydata(), line.get_transform())
        for area, reach in reaches:
            taken = any(other is area for other, _ in found.values())
            if taken or not _same_colour(line, area):
                continue
            ends = _ends(points, reach)
            if _belongs(points, ends):
                found[id(line)] = area, ends
                break
    return found


def _same_colour(line: Line2D, area: Any) -> bool:
    faces = area.get_facecolors()
    return len(faces) == 1 and opaque(faces[0]) == opaque(line.get_color())


def _reach(panel: Panel, area: PolyCollection) -> dict[float, tuple[float, float]]:
    """The lowest and the highest point of an area, at each place where it has corners."""
    found: dict[float, tuple[float, float]] = {}
    for path in area.get_paths():
        for x, y in panel.data(path.vertices, area.get_transform()).tolist():
            low, high = found.get(x, (y, y))
            found[x] = min(low, y), max(high, y)
    return found


def _ends(points: Any, reach: dict[float, tuple[float, float]]) -> Any:
    nothing = (np.nan, np.nan)
    return np.array([reach.get(x, nothing) for x in points[:, 0].tolist()]).reshape(-1, 2).T


def _belongs(points: Any, ends: Any) -> bool:
    known = np.isfinite(ends).all(axis=0)
    values = points[:, 1]
    if known.sum() < 2 or known.sum() < np.isfinite(values).sum() / 2:
        return False
    inside = (ends[0] <= values) & (values <= ends[1])
    return bool(inside[known].mean() >= _WITHIN)
