"""The words of a value on hover: with its interval, and where it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxk_lab.report.document import number
from maxk_lab.report.formats.html.plotly.panel import Panel
from maxk_lab.report.formats.html.plotly.words import HOVER, words

# The values of a line of more points are put in words by Plotly, which takes less room.
_MANY = 50


def told(panel: Panel, trace: dict[str, Any], points: Any, ends: Any) -> None:
    """Have the trace tell its values, with their intervals, on hover."""
    if ends is None and len(points) > _MANY and panel.x.is_plain and panel.y.is_plain:
        head = f"{words(panel.x.word)} = " if panel.x.word and "%" not in panel.x.word else ""
        trace["hovertemplate"] = "%{y:.3g} at " + head + "%{x:.6~g}<extra></extra>"
        return
    trace["customdata"] = said(panel, points, ends)
    trace["hovertemplate"] = HOVER


def said(panel: Panel, points: Any, ends: Any, *, along: str = "") -> list[str]:
    """`12.3 [11.0, 13.9] at K = 8` for each point.

    The value is along y, or along x where x has the intervals or y has names.
    """
    flat = along == "x" or (not along and panel.y.is_category and not panel.x.is_category)
    value_of, place_of = (0, 1) if flat else (1, 0)
    place = panel.y if flat else panel.x
    head = f"{place.word} = " if place.word and not place.is_category else ""
    found = []
    for index, point in enumerate(points):
        value = float(point[value_of])
        told = number(value)
        if ends is not None:
            low, high = float(ends[0][index]), float(ends[1][index])
            # Numbers that are exact have no interval to tell.
            if np.isfinite([low, high]).all() and low < high:
                told += f" [{number(low)}, {number(high)}]"
        if np.isfinite(point[place_of]):
            told += f" at {head}{place.said(float(point[place_of]))}"
        found.append(words(told))
    return found
