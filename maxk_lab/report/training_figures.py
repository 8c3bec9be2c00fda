"""Figures of a training study: Max@K against rollouts and against time, and the Max@K curve at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from maxk_lab.gradients.statistics import Interval
from maxk_lab.report.document import has_interval
from maxk_lab.report.drawing import finish, looks, panels
from maxk_lab.report.training_model import TrainingRow
from maxk_lab.report.training_section import labels, over_what

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Beyond this many lines their bands hide each other.
MANY = 8


def curves_figure(rows: Sequence[TrainingRow], title: str, level: float) -> Figure:
    """Held-out Max@K during training, a panel per K of interest: above against rollouts, below against time."""
    ks = shown_ks(rows)
    timed = any(not math.isnan(e.seconds) for row in rows for e in row.evaluations)
    names, styles = labels(rows), row_looks(rows)
    width = max(4.8 if len(rows) <= MANY else 7.5, 1.2 + 2.2 * len(ks))
    figure, axes = panels(2 if timed else 1, len(ks), (width, 1.0 + 2.3 * (1 + timed)), sharex="row")
    for j, k in enumerate(ks):
        for index, row in enumerate(rows):
            known = [e for e in row.evaluations if k in e.values and has_interval(e.values[k])]
            values = [e.values[k] for e in known]
            draw = partial(_line, row=row, style=styles[index], of=len(rows), label=names[index])
            draw(axes[0][j], [e.rollouts for e in known], values)
            if timed:
                draw(axes[1][j], [e.seconds for e in known], values)
        axes[0][j].set_title("mean reward (Max@1)" if k == 1 else f"Max@{k}")
        rollout_ticks(axes[0][j])
        axes[0][j].set_xlabel("rollouts")
        if timed:
            axes[1][j].set_xlabel("seconds of training")
    for line in axes:
        line[0].set_ylabel("held-out value")
    subtitle = f"bands: {level:.0%} intervals over {over_what(rows)}"
    if timed:
        subtitle += "; seconds: mean over seeds, evaluations not counted"
    finish(figure, axes, f"{title}\n{subtitle}")
    return figure


def final_figure(rows: Sequence[TrainingRow], title: str, level: float) -> Figure:
    """The held-out Max@K curve at the end of training, for K = 1 up to all samples of an evaluation."""
    names, styles = labels(rows), row_looks(rows)
    figure, axes = panels(1, 1, (5.8 if len(rows) <= MANY else 7.5, 3.6))
    for index, row in enumerate(rows):
        known = [(k, value) for k, value in enumerate(row.curve, start=1) if has_interval(value)]
        ks, values = [k for k, _ in known], [value for _, value in known]
        # Markers at the powers of two: one per K would run into each other.
        at = [i for i, k in enumerate(ks) if k & (k - 1) == 0]
        _line(
            axes[0][0],
            ks,
            values,
            row=row,
            style=styles[index],
            of=len(rows),
            label=names[index],
            marked=at,
        )
    most = max(len(row.curve) for row in rows)
    ticks = [2**power for power in range(most.bit_length()) if 2**power <= most]
    axes[0][0].set_xscale("log", base=2)
    axes[0][0].set_xticks(ticks, [str(k) for k in ticks])
    axes[0][0].set(xlabel="K", ylabel="held-out Max@K")
    finish(figure, axes, f"{title}\nbands: {level:.0%} intervals over {over_what(rows)}")
    return figure


def row_looks(rows: Sequence[TrainingRow]) -> list[dict[str, Any]]:
    """Colour and marker of each row: its K and its estimator with baseline."""
    return looks([row.key.k for row in rows], [f"{row.key.estimator}/{row.key.baseline}" for row in rows])


def shown_ks(rows: Sequence[TrainingRow]) -> list[int]:
    """The K that have a panel: 1, those that were trained for, and all samples of an evaluation."""
    wanted = {1, *(row.key.k for row in rows), *(len(row.curve) for row in rows)}
    return sorted(wanted & {k for row in rows for k in row.ks})


def rollout_ticks(axes: Axes) -> None:
    """Few and short ticks: 50k, 100k."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _line(
    axes: Axes,
    at: Sequence[float],
    values: Sequence[Interval],
    *,
    row: TrainingRow,
    style: dict[str, Any],
    of: int,
    label: str,
    marked: Sequence[int] | None = None,
) -> None:
    axes.plot(
        at,
        [value.value for value in values],
        **style,
        linestyle="-" if row.catalogued_unbiased else "--",
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
