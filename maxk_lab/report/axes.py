"""Axes of numbers that a sweep chose: a tick at each, logarithmic where they were chosen so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Beyond this many, every tick would be unreadable.
_TICKS = 9


def number_axis(axes: Axes, values: Sequence[float]) -> bool:
    """Set up the x axis for these ascending values; whether it is logarithmic."""
    log = is_geometric(values)
    ticks = list(values) if len(values) <= _TICKS else list(values[:: -(-len(values) // _TICKS)])
    if log:
        axes.set_xscale("log", base=2)
        axes.set_xlim(min(values) / 1.2, max(values) * 1.2)
    else:
        air = 0.06 * (max(values) - min(values)) or 0.5
        axes.set_xlim(min(values) - air, max(values) + air)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    return log


def is_geometric(values: Sequence[float]) -> bool:
    """Whether their ratios vary less than their differences: 8, 16, 32 and not 8, 12, 16."""
    if len(values) < 3:
        return len(values) == 2 and min(values) > 0 and max(values) >= 4 * min(values)
    if min(values) <= 0:
        return False
    steps, factors = np.diff(values), np.diff(np.log(values))
    return bool(factors.std() / factors.mean() < steps.std() / steps.mean())
