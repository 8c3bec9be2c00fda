"""The learning curves of a training study: Max@K against rollouts and against time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.report.document import number
from maxk_lab.report.drawing.ranges import known, limits, outside, squeezed
from maxk_lab.report.drawing.style import finish, looks, panels
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.columns import shown_ks
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import UNBIASED, derived, labels
from maxk_lab.studies.training.row.settings import training_words
from maxk_lab.studies.training.section.notes import over_what
from maxk_lab.studies.training.told import has_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Beyond this many lines their bands hide each other.
MANY = 8


def curves_figure(rows: Sequence[TrainingRow], title: str, level: float) -> Figure:
    """Held-out Max@K during training, a panel per K of interest, against rollouts and time."""
    ks = shown_ks(rows)
    timed = any(not math.isnan(e.seconds) for row in rows for e in row.evaluations)
    styles = row_looks(rows)
    ends, notes = _ranges(rows, ks)
    names = [", ".join(filter(None, told)) for told in zip(labels(rows), notes, strict=True)]
    width = max(4.8 if len(rows) <= MANY else 7.5, 1.2 + 2.2 * len(ks))
    size = (width, 1.0 + 2.3 * (1 + timed))
    # Panels of one K share a range of their own; else all panels share one.
    sharey: bool | Literal["col"] = "col" if any(ends) else True
    figure, axes = panels(2 if timed else 1, len(ks), size, sharex="row", sharey=sharey)
    for j, k in enumerate(ks):
        for index, row in enumerate(rows):
            known = [e for e in row.evaluations if k in e.values and has_value(e.values[k])]
            values = [e.values[k] for e in known]
            if unbanded(rows):
                values = list(map(without_band, values))
            drawn = values, row, styles[index], len(rows), names[index]
            draw_line(axes[0][j], [e.rollouts for e in known], *drawn)
            if timed:
                draw_line(axes[1][j], [e.seconds for e in known], *drawn)
        own = ends[j]
        if own is not None:
            axes[0][j].set_ylim(*own)
        axes[0][j].set_title("mean reward (Max@1)" if k == 1 else f"Max@{k}")
        rollout_ticks(axes[0][j])
        axes[0][j].set_xlabel("rollouts")
        if timed:
            axes[1][j].set_xlabel("seconds of training")
    for line in axes:
        line[0].set_ylabel(f"held-out value{cost_words(rows)}")
    subtitle = band_words(rows, level)
    if timed:
        subtitle += "; seconds: mean over seeds, evaluations not counted"
    if any(ends):
        subtitle += "; axes: what most rows reach in the second half"
    finish(figure, axes, f"{title}\n{subtitle}")
    return figure


def _ranges(
    rows: Sequence[TrainingRow], ks: Sequence[int]
) -> tuple[list[tuple[float, float] | None], list[str]]:
    """The range of the axis of each panel, and a note for each row that is outside of one.

    The range is that of the bulk of the rows in the second half of their evaluations. It is None
    where neither the start of training nor a row would flatten the rest.
    """
    ends: list[tuple[float, float] | None] = []
    notes = [""] * len(rows)
    for k in ks:
        found = [[e.values[k] for e in row.evaluations if k in e.values] for row in rows]
        lines = [[value.value for value in values] for values in found]
        late = [line[len(line) // 2 :] for line in lines]
        bands = [
            [e for v in values[len(values) // 2 :] for e in (v.low, v.high)] for values in found
        ]
        out = outside(late) if all(late) else [False] * len(late)
        inside, around = (
            [each for each, is_out in zip(of, out, strict=True) if not is_out]
            for of in (late, bands)
        )
        if not any(map(known, inside)) or not squeezed(inside, lines):
            ends.append(None)
            continue
        ends.append(limits(inside, [*inside, *around]))
        for i in (i for i, is_out in enumerate(out) if is_out):
            notes[i] = f"outside: {number(lines[i][-1])} at the end at K = {k}"
    return ends, notes


def band_words(rows: Sequence[TrainingRow], level: float) -> str:
    """The meaning of the bands; of many rows there are none.

    Most of their width comes from the instances of a seed, which all rows share, and the tables
    have the intervals of the paired differences.
    """
    if unbanded(rows):
        return f"mean over {over_what(rows)}; too many lines for bands: intervals are in the tables"
    return f"bands: {level:.0%} intervals over {over_what(rows)}"


def unbanded(rows: Sequence[TrainingRow]) -> bool:
    """Whether the rows are too many for a band each."""
    return len(rows) > MANY


def cost_words(rows: Sequence[TrainingRow]) -> str:
    """The words to add to an axis of rewards that are minus costs, all below zero."""
    below = all(value.value < 0 for row in rows for value in row.curve)
    return "\n(minus cost: higher is better)" if below else ""


def row_looks(rows: Sequence[TrainingRow]) -> list[dict[str, Any]]:
    """Colour and marker of each row: its K, and its estimator with baseline and setting."""
    methods = [
        f"{row.key.estimator}/{row.key.baseline} {training_words(row.key.setting)}" for row in rows
    ]
    return looks([row.key.k for row in rows], methods)


def without_band(value: Interval) -> Interval:
    """The value with no ends to draw."""
    return replace(value, low=math.nan, high=math.nan)


def rollout_ticks(axes: Axes) -> None:
    """Few and short ticks: 50k, 100k."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def draw_line(
    axes: Axes,
    at: Sequence[float],
    values: Sequence[Interval],
    row: TrainingRow,
    style: Mapping[str, Any],
    of: int,
    label: str,
    marked: Sequence[int] | None = None,
) -> None:
    """Draw a line with its band, one `of` so many; `marked` points have a marker, else all."""
    axes.plot(
        at,
        [value.value for value in values],
        **style,
        linestyle="-" if derived(row) == UNBIASED else "--",
        markersize=3.5,
        linewidth=1.2,
        markevery=marked,
        label=label,
    )
    axes.fill_between(
        at,
        [value.low for value in values],
        [value.high for value in values],
        color=style["color"],
        alpha=0.18 if of <= MANY else 0.08,
        linewidth=0,
    )
