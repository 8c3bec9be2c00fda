"""An axis of a panel: its scale, its ticks, and how a value on it is said."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.category import StrCategoryLocator
from matplotlib.text import Text
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    LogFormatter,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
)

from maxk_lab.report.formats.html.plotly.colours import Inks
from maxk_lab.report.formats.html.plotly.words import exactly, numbers, pixels, plain, words

Which = Literal["x", "y"]
# Ticks that matplotlib chose for a view; Plotly chooses its own, also for a part that one looks at.
_CHOSEN = (ScalarFormatter, LogFormatter, EngFormatter, NullFormatter)
# A value so near to a tick, as a share of the way to the next, was moved aside for its neighbours.
_BESIDE = 0.25
# In the numbers that matplotlib writes as formulas.
_FORMULA = "\\mathdefault"
# Pixels of the texts of ticks that Plotly chooses.
_TICK = 11.0
_GRID, _LINE = "#e3e6ea", "#8a8f98"
_SIDES = {"x": ("bottom", "top"), "y": ("left", "right")}


class Scale:
    """One axis of matplotlib's, `x` or `y`, as one of Plotly's."""

    def __init__(self, axes: Axes, which: Which) -> None:
        self.axes, self.which = axes, which
        self.axis = axes.xaxis if which == "x" else axes.yaxis
        self.ends: tuple[float, float] = axes.get_xlim() if which == "x" else axes.get_ylim()
        name = self.axis.get_scale()
        self.is_log = name == "log"
        # The title in short, for what is told on hover, and the one of the whole figure.
        self.word = self.outer = ""
        # Plotly knows no others: it is told where these put each value.
        self._bent = None if name in ("linear", "log") else self.axis.get_transform()

    def places(self, values: Any) -> list[float | None]:
        """The values as data of Plotly's."""
        return plain(self._bend(values))

    def spot(self, value: float) -> float:
        """The value as a place in Plotly's layout: there a logarithmic axis has logarithms."""
        return math.log10(value) if self.is_log else float(self._bend([value])[0])

    def _bend(self, values: Any) -> Any:
        array = numbers(values)
        return array if self._bent is None else self._bent.transform(array)

    @cached_property
    def ticks(self) -> dict[float, str] | None:
        """The ticks that were chosen with the figure, each with its text; None where Plotly may."""
        locator, formatter = self.axis.get_major_locator(), self.axis.get_major_formatter()
        given = isinstance(locator, FixedLocator | NullLocator | StrCategoryLocator)
        if not given and self._bent is None and isinstance(formatter, _CHOSEN):
            return None
        at = [float(tick) for tick in self.axis.get_majorticklocs()]
        texts = formatter.format_ticks(at)
        return {
            tick: exactly(tick) if _FORMULA in text else text
            for tick, text in zip(at, texts, strict=True)
        }

    @cached_property
    def angle(self) -> float:
        """The degrees by which the texts of its ticks are turned, clockwise."""
        labels = self.axis.get_ticklabels() if self.ticks else []
        return turned(labels[0]) if labels else 0.0

    @cached_property
    def tick_size(self) -> float:
        """The size, in pixels, of the texts of its ticks."""
        labels = self.axis.get_ticklabels() if self.ticks else []
        return pixels(labels[0].get_fontsize()) if labels else _TICK

    @property
    def is_plain(self) -> bool:
        """Whether its values are said as they are."""
        return self.ticks is None and self._bent is None

    @cached_property
    def is_category(self) -> bool:
        """Whether its ticks have names."""
        return bool(self.ticks) and not any(
            _is_number(text) for text in (self.ticks or {}).values()
        )

    def said(self, value: float) -> str:
        """A value of this axis in words: that of its tick where it stands at or beside one."""
        ticks = {at: text for at, text in (self.ticks or {}).items() if text}
        if not ticks:
            return exactly(value)
        nearest = min(ticks, key=lambda tick: abs(tick - value))
        if value == nearest or self.is_category or self._moved_aside:
            return ticks[nearest].replace("\n", ", ")
        return exactly(value)

    @cached_property
    def _moved_aside(self) -> bool:
        """Whether all points stand at ticks, moved aside for their neighbours at most."""
        spots = np.sort([self.spot(tick) for tick, text in (self.ticks or {}).items() if text])
        found = [
            np.asarray(line.get_data()[self.which == "y"], dtype=float) for line in self._lines
        ]
        values = np.concatenate([*found, []])
        values = values[np.isfinite(values) & ((values > 0) | (not self.is_log))]
        if len(spots) < 2 or not len(values):
            return False
        at = np.array([self.spot(value) for value in np.unique(values)])
        away = np.abs(at[:, None] - spots[None, :])
        nearest = away.argmin(axis=1)
        gaps = np.abs(spots[:, None] - spots[None, :])
        np.fill_diagonal(gaps, np.inf)
        return bool((away.min(axis=1) < _BESIDE * gaps.min(axis=1)[nearest]).all())

    @property
    def _lines(self) -> list[Any]:
        return [line for line in self.axes.lines if line.get_transform() == self.axes.transData]

    @property
    def title(self) -> str:
        """The words beside the axis, or beside all panels where it is at their edge."""
        return self.axis.get_label().get_text() or self.outer

    def shows_labels(self) -> bool:
        """Whether its ticks have their texts beside them."""
        shown = self.axis.get_tick_params()
        return any(shown.get(f"label{side}", True) for side in _SIDES[self.which])

    def layout(self, inks: Inks) -> dict[str, Any]:
        """The axis in Plotly's layout, but for where it is."""
        low, high = self.ends
        ends = [self.spot(low), self.spot(high)]
        spine = self.axes.spines[_SIDES[self.which][0]]
        told: dict[str, Any] = {
            "type": "log" if self.is_log else "linear",
            "range": plain(ends),
            "zeroline": False,
            "showgrid": bool(self.axis.get_tick_params().get("gridOn", False)),
            "gridcolor": inks.ink(_GRID),
            "linecolor": inks.ink(_LINE),
            "tickcolor": inks.ink(_LINE),
            "showline": bool(spine.get_visible()),
            "showticklabels": self.shows_labels(),
            "automargin": True,
            "title": {
                "text": words(self.title),
                "standoff": 6,
                "font": {"size": pixels(self.axis.get_label().get_fontsize())},
            },
        }
        if not (self.axes.axison and self.axis.get_visible()):
            told["visible"] = False
        return told | self._tick_layout()

    def _tick_layout(self) -> dict[str, Any]:
        formatter, locator = self.axis.get_major_formatter(), self.axis.get_major_locator()
        if self.ticks is not None:
            told: dict[str, Any] = {
                "tickmode": "array",
                "tickvals": self.places(list(self.ticks)),
                "ticktext": [words(text) for text in self.ticks.values()],
            }
            if self.angle:
                told["tickangle"] = self.angle
            return told | {"tickfont": {"size": self.tick_size}}
        told = {"tickfont": {"size": self.tick_size}}
        if self.is_log:
            # Whole numbers: Plotly would write a small 2 for 0.02.
            told["tickformat"] = "~g"
        elif isinstance(formatter, EngFormatter):
            told["tickformat"] = "~s"
        bins = getattr(locator, "_nbins", None) if isinstance(locator, MaxNLocator) else None
        return told | ({"nticks": bins + 1} if isinstance(bins, int) else {})


def turned(text: Text) -> float:
    """The degrees by which a text is turned clockwise, from −180 to 180."""
    angle = float(text.get_rotation())
    return -angle if angle <= 180 else 360 - angle


def _is_number(text: str) -> bool:
    try:
        float(text.replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        return False
    return True
