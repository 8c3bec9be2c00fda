"""How figures lay out their panels, and the axes that these share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.report.drawing.axes import logarithmic
from maxk_lab.report.drawing.ranges import known, outside
from maxk_lab.report.drawing.style import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches: numbers and letters are to be read at the width of a page, and of a phone.
WIDTH = 6.6
_ALONE = 5.6
_HEIGHT = 2.1
# The panels beside each other of so many, else three.
_COLUMNS = {1: 1, 2: 2, 4: 2}
# Rows that leave an axis are no more than this share of all.
_FEW = 0.4
# An axis must be so many times as long with the lines that leave it; and where lines are fewer than
# so many, each of which matters, so many times.
_LEAST = 2.0
_MANY = 5
_LEAST_OF_FEW = 6.0
# More ticks than this run into each other in a small panel.
_TICKS = 4


def side_by_side(count: int, *, shared: bool, labels: tuple[str, str]) -> tuple[Figure, Any]:
    """A figure of so many panels and their axes [count]; `shared` is their y axis.

    `labels` are those of the x axis, below the lowest panels, and of the y axis, left of the first.
    """
    columns = _COLUMNS.get(count, 3)
    lines = -(-count // columns)
    width, height = (WIDTH, 0.9) if count > 1 else (_ALONE, 1.4)
    figure, axes = panels(lines, columns, (width, height + _HEIGHT * lines), sharey=shared)
    used = axes.flat[:count]
    for panel in axes.flat[count:]:
        panel.set_axis_off()
    for panel in used[max(0, count - columns) :]:
        # The lowest of its column, even where the last line of panels is not full.
        panel.tick_params(labelbottom=True)
        panel.set_xlabel(labels[0])
    for panel in used[::columns]:
        panel.set_ylabel(labels[1])
    return figure, used


def leaving(lines: Sequence[Sequence[float]]) -> list[bool]:
    """Whether each line is so far from the others that an axis with it would flatten them.

    One that has diverged hides which others are far from the rest: these are looked at again.
    """
    out = [False] * len(lines)
    while True:
        kept = [i for i, gone in enumerate(out) if not gone]
        found = outside([lines[i] for i in kept]) if all(lines[i] for i in kept) else []
        more = [i for i, gone in zip(kept, found, strict=False) if gone]
        if not more or sum(out) + len(more) > _FEW * len(out):
            return out
        rest = [lines[i] for i in kept if i not in more]
        least = _LEAST if len(lines) >= _MANY else _LEAST_OF_FEW
        if _span([lines[i] for i in kept]) < least * _span(rest):
            return out
        for i in more:
            out[i] = True


def _span(lines: Sequence[Sequence[float]]) -> float:
    values = [value for line in lines for value in known(line)]
    return max(values) - min(values)


def k_axis(axes: Axes, most: int) -> None:
    """Make the x axis one of K up to the most samples, with few enough ticks for a small panel."""
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    ticks = powers if len(powers) <= _TICKS else powers[::2]
    logarithmic(axes, "x", 2)
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xticks([], minor=True)


def rollout_ticks(axes: Axes) -> None:
    """Give the x axis few and short ticks: 50k, 100k."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
