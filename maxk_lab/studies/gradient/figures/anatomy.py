"""The figure of the variance anatomy: the variance of each cell, and the parts it is made of."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxk_lab.report.document import number
from maxk_lab.report.drawing.style import finish, panels
from maxk_lab.report.naming import Setting, setting_words
from maxk_lab.studies.gradient.columns import ANATOMY
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import is_oracle, method, method_order, shared_estimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Bars of one figure, unless one group alone has more.
MOST = 24
_LABELS = {
    "variance_first": "first order: each sample alone",
    "variance_cross": "cross terms of the samples",
    "variance_baseline": "the baseline's own noise",
    "variance_interaction": "interaction of these two",
}
_COLOURS = dict(zip(ANATOMY, ("#0072B2", "#56B4E9", "#E69F00", "#CC79A7"), strict=True))
# Between groups, in bars; of a bar and of a letter above a group, in inches.
_GAP = 0.8
_BAR = 0.36
_LETTER = 0.062
# A bar so many times the median one would leave nothing to see of the others.
_FAR = 4.0


def anatomy_parts(rows: Sequence[GradientRow]) -> Iterator[list[GradientRow]]:
    """The rows that have an anatomy, in figures of at most `MOST` bars.

    Rows of the same setting and n stay together. A row that nothing stands beside is left out:
    there is nothing to compare, and the table has its shares.
    """
    groups: dict[Hashable, list[GradientRow]] = {}
    for row in rows:
        if row.anatomy:
            groups.setdefault(_group(row), []).append(row)
    found: list[GradientRow] = []
    for group in groups.values():
        if len(group) == 1:
            continue
        if found and len(found) + len(group) > MOST:
            yield found
            found = []
        found = [*found, *sorted(group, key=method_order)]
    if found:
        yield found


def anatomy_figure(rows: Sequence[GradientRow], title: str) -> Figure:
    """The parts of each cell's variance, stacked, as multiples of the least unbiased beside it.

    A negative interaction hangs below zero. The black line is the variance itself, with its number:
    the part of a bar above it hangs below zero, too. The least is that of the same setting, n and
    objective, for gradients of different objectives have no common scale; oracles are shown, and
    are no such least. Bars far larger than most are cut, and only their number says how far they
    reach.
    """
    at, ends = _positions(rows)
    width = max(5.2, 1.6 + _BAR * (at[-1] + 1.0))
    headed = all(
        _BAR * (last - first + 1.0 + _GAP) >= _LETTER * len(_words(row))
        for row, (first, last) in ends
    )
    figure, axes = panels(1, 1, (width, 4.5))
    panel = axes[0][0]
    heights = [_multiples(row, _least(row, rows)) for row in rows]
    top, bottom = _limits(heights)
    several = len({_objective(row) for row in rows}) > 1
    for part in ANATOMY:
        _bars(panel, at, heights, part)
    for x, parts in zip(at, heights, strict=True):
        total, above = sum(parts.values()), sum(max(0.0, part) for part in parts.values())
        panel.plot([x - 0.4, x + 0.4], [total] * 2, color="black", linewidth=1.6)
        at_height = min(above, top) + 0.012 * (top - bottom)
        panel.text(x, at_height, number(total), ha="center", va="bottom", fontsize=6.3, zorder=4)
    panel.axhline(0.0, color="black", linewidth=0.8)
    panel.set(
        xlim=(-0.7, at[-1] + 0.7),
        ylim=(bottom - 0.03 * (top - bottom), top + 0.09 * (top - bottom)),
        ylabel="variance over the least unbiased" + ("\nof its objective" if several else ""),
    )
    panel.grid(axis="x", visible=False)
    labels = [
        _label(row, rows) if headed else ", ".join((_label(row, rows), _words(row))) for row in rows
    ]
    panel.set_xticks(at, labels, rotation=55, ha="right", rotation_mode="anchor", fontsize=7.5)
    for row, (first, last) in ends if headed else ():
        panel.text(
            (first + last) / 2,
            1.02,
            _words(row),
            transform=panel.get_xaxis_transform(),
            ha="center",
            fontsize=7.5,
        )
    said = "exact for these instances; black line and number: the variance itself, the sum"
    finish(figure, axes, f"{title}\n{said}")
    return figure


def _group(row: GradientRow) -> tuple[Setting, int]:
    return row.key.setting, row.key.n


def _positions(
    rows: Sequence[GradientRow],
) -> tuple[list[float], list[tuple[GradientRow, tuple[float, float]]]]:
    """The place of each bar, and for each group a row of it with its first and last place."""
    at: list[float] = []
    ends: list[tuple[GradientRow, tuple[float, float]]] = []
    for index, row in enumerate(rows):
        new = index == 0 or _group(row) != _group(rows[index - 1])
        at.append(0.0 if index == 0 else at[-1] + 1.0 + _GAP * new)
        first = at[-1] if new else ends.pop()[1][0]
        ends.append((row, (first, at[-1])))
    return at, ends


def _words(row: GradientRow) -> str:
    return ", ".join(filter(None, (setting_words(row.key.setting), f"n = {row.key.n}")))


def _label(row: GradientRow, rows: Sequence[GradientRow]) -> str:
    several = len({shared_estimator(other) for other in rows}) > 1
    name = (
        f"{row.key.estimator} {method(row)}"
        if several and method(row) != row.key.estimator
        else method(row)
    )
    return name if row.catalogued_unbiased else f"{name} (biased)"


def _least(row: GradientRow, rows: Sequence[GradientRow]) -> float:
    """The least variance of the unbiased rows of its group and objective, of all where none is.

    NaN where that is zero.
    """
    group = [
        other
        for other in rows
        if _group(other) == _group(row) and _objective(other) == _objective(row)
    ]
    candidates = [
        other for other in group if other.catalogued_unbiased and not is_oracle(other)
    ] or group
    least = min(sum(other.anatomy.values()) for other in candidates)
    return least if least > 0 else math.nan


def _objective(row: GradientRow) -> str:
    return row.key.method.objective.name


def _multiples(row: GradientRow, least: float) -> dict[str, float]:
    return {
        part: 0.0 if math.isnan(least) else value / least for part, value in row.anatomy.items()
    }


def _limits(heights: Sequence[dict[str, float]]) -> tuple[float, float]:
    """Top and bottom of the axis: of all bars but those far larger than most."""
    above = [sum(max(0.0, part) for part in parts.values()) for parts in heights]
    below = [sum(min(0.0, part) for part in parts.values()) for parts in heights]
    return _most(above), -_most([-depth for depth in below])


def _most(sizes: Sequence[float]) -> float:
    largest = max(sizes)
    if largest == 0:
        return 0.0
    usual = _FAR * float(np.median([size for size in sizes if size > 0]))
    return largest if largest <= usual else max(size for size in sizes if size <= usual) * 1.15


def _bars(axes: Axes, at: Sequence[float], heights: Sequence[dict[str, float]], part: str) -> None:
    before = ANATOMY[: ANATOMY.index(part)]
    bottoms = [sum(p[name] for name in before if (p[name] < 0) == (p[part] < 0)) for p in heights]
    axes.bar(
        at,
        [p[part] for p in heights],
        0.78,
        bottom=bottoms,
        color=_COLOURS[part],
        label=_LABELS[part],
        linewidth=0,
    )
