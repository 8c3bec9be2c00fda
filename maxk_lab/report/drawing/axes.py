"""Axes of numbers that a sweep chose: a tick at each, logarithmic where they were chosen so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Beyond this many, every tick would be unreadable.
_TICKS = 9
# Room beside the first and the last tick, as a share of the axis, for lines moved sideways.
_AIR = 0.09


def number_axis(axes: Axes, values: Sequence[float]) -> bool:
    """Set up the x axis for these ascending values; whether it is logarithmic."""
    log = is_geometric(values)
    ticks = list(values) if len(values) <= _TICKS else list(values[:: -(-len(values) // _TICKS)])
    if log:
        axes.set_xscale("log", base=2)
        air = max(1.2, (max(values) / min(values)) ** _AIR)
        axes.set_xlim(min(values) / air, max(values) * air)
    else:
        air = _AIR * (max(values) - min(values)) or 0.5
        axes.set_xlim(min(values) - air, max(values) + air)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    return log


def plain_ticks(axes: Axes) -> None:
    """Write the numbers between the powers of ten of a logarithmic y axis as 0.6 and 20.

    They are written where there is room for them.
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """LogFormatter decides which ticks get a number, and this how it is written."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axes.yaxis.set_minor_formatter(Plain(minor_thresholds=(1.5, 0.6)))


def is_geometric(values: Sequence[float]) -> bool:
    """Whether their ratios vary less than their differences: 8, 16, 32 and not 8, 12, 16."""
    if len(values) < 3:
        return len(values) == 2 and min(values) > 0 and max(values) >= 4 * min(values)
    if min(values) <= 0:
        return False
    steps, factors = np.diff(values), np.diff(np.log(values))
    return bool(factors.std() / factors.mean() < steps.std() / steps.mean())
