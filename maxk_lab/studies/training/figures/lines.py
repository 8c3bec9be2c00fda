"""The lines of the figures: one look for a method in all of them, bands, and grey ones behind."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from maxk_lab.report.drawing.style import COLOURS, look
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.row.model import TrainingKey, TrainingRow
from maxk_lab.studies.training.row.names import UNBIASED, derived, spoken_method, trained_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEHIND: dict[str, Any] = {"color": "#bdbdbd", "linewidth": 0.8, "zorder": 1.2}
_BLACK = COLOURS.index("#000000")
OTHERS = "the methods of the other panels"


class Looks:
    """Colour, marker and name of every method of a study, the same in all of its figures.

    Black is the method that the others are compared with.
    """

    def __init__(
        self,
        rows: Sequence[TrainingRow],
        references: Collection[TrainingKey] = (),
        *,
        with_k: bool = False,
    ) -> None:
        """Give each method of these rows a look, in their order; names are `with_k` where K vary.

        The first of the `references` is black.
        """
        methods = dict.fromkeys(map(self.method, rows))
        black = next((self.method(row) for row in rows if row.key in references), None)
        coloured = (index for index in itertools.count() if index % len(COLOURS) != _BLACK)
        self._looks = {
            method: look(_BLACK if method == black else next(coloured)) for method in methods
        }
        self._with_k = with_k and len({row.key.k for row in rows}) > 1

    def method(self, row: TrainingRow) -> str:
        """Estimator, baseline and settings, whatever the K that is trained for."""
        return spoken_method(row)

    def of(self, row: TrainingRow) -> dict[str, Any]:
        """Colour and marker of its method."""
        return self._looks[self.method(row)]

    def label(self, row: TrainingRow) -> str:
        """The name of its method, with the K that it is trained for where panels do not say it."""
        return f"{self.method(row)}{trained_for(row) if self._with_k else ''}"


def draw_line(
    axes: Axes,
    at: Sequence[float],
    values: Sequence[Interval],
    row: TrainingRow,
    style: Mapping[str, Any],
    label: str,
    marked: Sequence[int] | None = None,
) -> None:
    """Draw a line with its band; `marked` points have a marker, else all."""
    axes.plot(
        at,
        [value.value for value in values],
        **style,
        linestyle=dashes(row),
        markersize=3.5,
        linewidth=1.3,
        markevery=marked,
        label=label,
    )
    if any(not math.isnan(value.low) for value in values):
        axes.fill_between(
            at,
            [value.low for value in values],
            [value.high for value in values],
            color=style["color"],
            alpha=0.12,
            linewidth=0,
        )


def draw_behind(axes: Axes, at: Sequence[float], values: Sequence[float]) -> None:
    """Draw a line that another panel has in colour."""
    axes.plot(at, values, **_BEHIND, label=OTHERS)


def dashes(row: TrainingRow) -> str:
    """A broken line where the gradient is not known to be that of Max@K."""
    return "-" if derived(row) == UNBIASED else "--"


def as_seen(values: Sequence[Interval], ends: tuple[float, float] | None) -> Sequence[Interval]:
    """The values with their bands, where an axis with these ends shows anything of the line.

    The axis clips a band. That of a line which is all beyond it would reach in alone, and nobody
    could tell whose it is.
    """
    if ends is None or any(ends[0] <= value.value <= ends[1] for value in values):
        return values
    return [replace(value, low=math.nan, high=math.nan) for value in values]
