"""The range of an axis that the bulk of the lines fits, where one that diverged would squeeze."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxk_lab.report.document import number
from maxk_lab.statistics.units import Array

# A line is outside where it is so many times as far from the median line as the bulk of the lines,
# and as that line is long.
_FAR = 3.0
_LENGTHS = 1.0
# The bulk: this share of the lines, those nearest to the median line; the larger where the smaller
# leaves too many outside.
_BULK = (0.5, 0.75)
# More than this share of the lines have not diverged: they are a group of their own.
_FEW = 0.4
# Bands may take so much more room than the lines, on either side.
_BANDS = 0.5
_AIR = 0.05


def outside(lines: Sequence[Sequence[float]]) -> list[bool]:
    """Whether each line is so far from the others that it would flatten them.

    Lines are given by their values at the same places.
    """
    table = _table(lines)
    if len(table) < 3:
        return [False] * len(table)
    middle = np.nanmedian(table, axis=0)
    apart = np.nanmax(np.abs(table - middle), axis=1)
    for share in _BULK:
        near = np.sort(apart)[int(share * (len(apart) - 1))]
        far = max(_FAR * float(near), _LENGTHS * float(np.ptp(middle)))
        out = [bool(distance > far) for distance in apart]
        if sum(out) <= _FEW * len(out):
            return out
    return [False] * len(table)


def limits(
    lines: Sequence[Sequence[float]], bands: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """The ends of an axis with all `lines`, and as much of the `bands` as does not squeeze them."""
    low, high = _ends(lines)
    span = high - low or 1.0
    least, most = _ends(bands)
    low, high = (
        min(low, max(least, low - _BANDS * span)),
        max(high, min(most, high + _BANDS * span)),
    )
    return low - _AIR * span, high + _AIR * span


def squeezed(lines: Sequence[Sequence[float]], bands: Sequence[Sequence[float]]) -> bool:
    """Whether an axis with all of the bands would leave the lines less than a quarter of it."""
    low, high = _ends(lines)
    least, most = _ends(bands)
    return most - least > _FAR * (high - low) > 0


def where(line: Sequence[float], ends: tuple[float, float]) -> str:
    """`below the axis, -7.98 to -6.22`: the place of a line that is not, or not all, to be seen."""
    low, high = float(np.nanmin(line)), float(np.nanmax(line))
    side = "below" if high < ends[0] else "above" if low > ends[1] else "beyond"
    return f"{side} the axis, {number(low)} to {number(high)}"


def known(line: Sequence[float]) -> list[float]:
    """The values that are there."""
    return [value for value in line if np.isfinite(value)]


def _table(lines: Sequence[Sequence[float]]) -> Array:
    """The lines as rows, NaN where one is shorter than others."""
    table = np.full((len(lines), max(map(len, lines), default=0)), np.nan)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line
    return table


def _ends(lines: Sequence[Sequence[float]]) -> tuple[float, float]:
    found = [value for line in lines for value in known(line)]
    return min(found), max(found)
