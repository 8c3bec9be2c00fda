"""Axes of numbers that a sweep chose: a tick at each, logarithmic where they were chosen so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Room beside the first and the last tick, as a share of the axis, for lines moved sideways.
_AIR = 0.09
_DECADES = 3


def number_axis(axes: Axes, values: Sequence[float], most: int = 9) -> bool:
    """Set up the x axis for these ascending values; whether it is logarithmic.

    A value that stands nearer to the one before than `most` ticks would has no tick.
    """
    log = is_geometric(values)
    if log:
        logarithmic(axes, "x", 2)
        air = max(1.2, (max(values) / min(values)) ** _AIR)
        axes.set_xlim(min(values) / air, max(values) * air)
    else:
        air = _AIR * (max(values) - min(values)) or 0.5
        axes.set_xlim(min(values) - air, max(values) + air)
    ticks = _apart(values, [math.log(value) for value in values] if log else values, most)
    axes.set_xticks(ticks, [_plain(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    return log


def _apart(values: Sequence[float], places: Sequence[float], most: int) -> list[float]:
    """The first value, and each that is far enough from the last of those before it."""
    kept, last = [], -math.inf
    for value, place in zip(values, places, strict=True):
        if place - last >= 0.999 * (places[-1] - places[0]) / most:
            kept.append(value)
            last = place
    return kept


def logarithmic(axes: Axes, which: Literal["x", "y"], base: int = 10) -> None:
    """Make an axis logarithmic, whose numbers are plain text: 0.1, 0.6, 20, 1e-05.

    By default matplotlib writes them as formulas, which no figure parses: names would be formulas,
    too. Those between the powers are written where there is room for them.
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """LogFormatter decides which ticks get a number, and this how it is written."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return _plain(x) if super().__call__(x, pos) else ""

    set_scale, axis = (
        (axes.set_xscale, axes.xaxis) if which == "x" else (axes.set_yscale, axes.yaxis)
    )
    set_scale("log", base=base)
    axis.set_major_formatter(Plain(base))
    axis.set_minor_formatter(Plain(base, minor_thresholds=(1.5, 0.6)))


def few_decades(axes: Axes, limits: tuple[float, float]) -> None:
    """Let a logarithmic x axis between these ends have at most three numbers, as panels are narrow.

    Where it holds no two powers of ten, its numbers stay as they are.
    """
    low, high = (math.log10(end) for end in limits)
    powers = range(math.ceil(low), math.floor(high) + 1)
    if len(powers) < 2:
        return
    step = -(-len(powers) // _DECADES)
    told = [power for power in powers if power % step == 0]
    axes.set_xticks([10.0**power for power in told], [_plain(10.0**power) for power in told])
    axes.set_xticks([10.0**power for power in powers], [""] * len(powers), minor=True)


def _plain(value: float) -> str:
    """`0.6`, `20`, `100k`, `5M`: large numbers as short as the panels of a figure are narrow."""
    for least, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e5, 1e3, "k")):
        if least <= value < 1e12:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def is_geometric(values: Sequence[float]) -> bool:
    """Whether their ratios vary less than their differences: 8, 16, 32 and not 8, 12, 16."""
    if len(values) < 3:
        return len(values) == 2 and min(values) > 0 and max(values) >= 4 * min(values)
    if min(values) <= 0:
        return False
    steps, factors = np.diff(values), np.diff(np.log(values))
    return bool(factors.std() / factors.mean() < steps.std() / steps.mean())
