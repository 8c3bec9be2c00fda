"""A panel of a figure: its two axes, the coordinates of what is drawn in it, and what was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Transform

from maxk_lab.report.formats.html.plotly.colours import Inks
from maxk_lab.report.formats.html.plotly.scales import Scale
from maxk_lab.report.formats.html.plotly.words import numbers

# Where a panel may have a title.
SIDES: tuple[Literal["left", "center", "right"], ...] = ("left", "center", "right")


@dataclass(frozen=True)
class Look:
    """The look by which a series is known: a colour, and a marker and dashes where it has them."""

    colour: str
    marker: str = ""
    dash: str = ""


@dataclass
class Series:
    """One trace of Plotly's; `label` is the name that the figure gives it, if any."""

    trace: dict[str, Any]
    look: Look
    label: str = ""
    follows: Series | None = None
    own: bool = False


@dataclass
class Panel:
    """The axes of matplotlib, and the names of the axes of Plotly that they are."""

    axes: Axes
    x: Scale
    y: Scale
    names: tuple[str, str]
    inks: Inks
    series: list[Series] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, trace: dict[str, Any], look: Look, label: Any = "") -> Series:
        """Add a trace to this panel; a label that begins with `_` is none."""
        named = str(label) if label and not str(label).startswith("_") else ""
        series = Series(
            {**trace, "xaxis": self.names[0], "yaxis": self.names[1]}, look, named, own=bool(named)
        )
        self.series.append(series)
        return series

    def data(self, points: Any, transform: Transform) -> Any:
        """The points [N, 2] of an artist as values on the axes; what has no place there is NaN."""
        array = numbers(points).reshape(-1, 2)
        own = self.along(transform)
        if all(own):
            return array
        with np.errstate(all="ignore"):
            found = self.axes.transData.inverted().transform(transform.transform(array))
        for column in (0, 1):
            if own[column]:
                found[:, column] = array[:, column]
        return found

    def along(self, transform: Transform) -> tuple[bool, bool]:
        """Whether these coordinates, x and y, are values on the axes."""
        axes = self.axes
        for other, own in (
            (axes.transData, (True, True)),
            (axes.get_xaxis_transform(), (True, False)),
            (axes.get_yaxis_transform(), (False, True)),
        ):
            if transform == other:
                return own
        return False, False

    def within(self, point: Any, transform: Transform) -> Any:
        """A point of an artist as shares of the width and the height of the panel."""
        return self.axes.transAxes.inverted().transform(transform.transform(point))
