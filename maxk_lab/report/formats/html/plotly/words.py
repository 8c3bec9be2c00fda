"""Words and numbers as Plotly takes them."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np

# So many digits of a number: more than any eye or interval tells.
_DIGITS = 9
# CSS pixels in a point, in which matplotlib measures.
PIXELS = 4 / 3
PIXELS_PER_INCH = 96
# What is told of a point: its own words, without the name of the series in a box beside them.
HOVER = "%{customdata}<extra></extra>"


class UnconvertibleError(Exception):
    """The figure shows something that has no counterpart here, and is to be shown as drawn."""


def words(text: str) -> str:
    """The text as itself: Plotly takes some of HTML for formatting."""
    return "<br>".join(html.escape(line, quote=False) for line in text.splitlines())


def numbers(values: Any) -> Any:
    """The values as an array of numbers; NaN for those that are masked."""
    array: Any = np.ma.asarray(values, dtype=float)
    return np.ma.filled(array, np.nan)


def plain(values: Any) -> list[float | None]:
    """The numbers for JSON; None for what is none, and so leaves a gap."""
    found = numbers(values).tolist()
    return [float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else None for v in found]


def exactly(value: float) -> str:
    """A number that was chosen, such as 16 or 0.05; not one that was measured."""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


def pixels(points: Any) -> float:
    """A length in CSS pixels, of one in points."""
    return round(float(points) * PIXELS, 2)
