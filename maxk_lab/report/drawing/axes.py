"""Axes of numbers that a sweep chose: a tick at each, logarithmic where they were chosen so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

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
        logarithmic(axes, "x", 2)
        air = max(1.2, (max(values) / min(values)) ** _AIR)
        axes.set_xlim(min(values) / air, max(values) * air)
    else:
        air = _AIR * (max(values) - min(values)) or 0.5
        axes.set_xlim(min(values) - air, max(values) + air)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    return log


def logarithmic(axes: Axes, which: Literal["x", "y"], base: int = 10) -> None:
    """Make an axis logarithmic, whose numbers are plain text: 0.1, 0.6, 20, 1e-05.

    By default matplotlib writes them as formulas, which no figure parses: names would be formulas,
    too. Those between the powers are written where there is room for them.
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """LogFormatter decides which ticks get a number, and this how it is written."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    set_scale, axis = (
        (axes.set_xscale, axes.xaxis) if which == "x" else (axes.set_yscale, axes.yaxis)
    )
    set_scale("log", base=base)
    axis.set_major_formatter(Plain(base))
    axis.set_minor_formatter(Plain(base, minor_thresholds=(1.5, 0.6)))


def is_geometric(values: Sequence[float]) -> bool:
    """Whether their ratios vary less than their differences: 8, 16, 32 and not 8, 12, 16."""
    if len(values) < 3:
        return len(values) == 2 and min(values) > 0 and max(values) >= 4 * min(values)
    if min(values) <= 0:
        return False
    steps, factors = np.diff(values), np.diff(np.log(values))
    return bool(factors.std() / factors.mean() < steps.std() / steps.mean())
