"""Where panels are, and what ties their axes to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxk_lab.report.formats.html.plotly.panel import Panel
from maxk_lab.report.formats.html.plotly.scales import Scale

_SAME = 1e-6


@dataclass(frozen=True)
class Frame:
    """The smallest part of a figure that has all panels, as shares of the figure."""

    left: float
    bottom: float
    right: float
    top: float

    def inside(self, x: float, y: float) -> tuple[float, float]:
        """A place of the figure as shares of this part, which Plotly calls paper."""
        width, height = self.right - self.left, self.top - self.bottom
        return (x - self.left) / width, (y - self.bottom) / height


def frame_of(panels: Sequence[Panel]) -> Frame:
    """The frame of these panels."""
    boxes = [panel.axes.get_position() for panel in panels]
    return Frame(
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
    )


def axis_layouts(panels: Sequence[Panel], frame: Frame) -> dict[str, dict[str, Any]]:
    """The axes of all panels in Plotly's layout, by their names there."""
    told: dict[str, dict[str, Any]] = {}
    for index, panel in enumerate(panels):
        box = panel.axes.get_position()
        (x0, y0), (x1, y1) = frame.inside(box.x0, box.y0), frame.inside(box.x1, box.y1)
        for scale, ends in ((panel.x, (x0, x1)), (panel.y, (y0, y1))):
            other = panel.names[scale.which == "x"]
            axis = {**scale.layout(panel.inks), "domain": [*map(share, ends)], "anchor": other}
            axis |= _linked(panels[:index], panel, scale)
            told[layout_name(panel.names[scale.which == "y"])] = axis
    return told


def give_outer_titles(figure: Figure, panels: Sequence[Panel]) -> None:
    """Give the titles that the axes of all panels share to the lowest and the leftmost panels."""
    boxes = [panel.axes.get_position() for panel in panels]
    for panel, box in zip(panels, boxes, strict=True):
        column = [other.y0 for other in boxes if abs(other.x0 - box.x0) < _SAME]
        line = [other.x0 for other in boxes if abs(other.y0 - box.y0) < _SAME]
        if box.y0 <= min(column):
            panel.x.outer = figure.get_supxlabel()
        if box.x0 <= min(line):
            panel.y.outer = figure.get_supylabel()


def is_colorbar(axes: Axes) -> bool:
    """Whether axes are the scale of colours of others."""
    return hasattr(axes, "_colorbar")


def has_colorbar(figure: Figure) -> bool:
    """Whether a figure has a scale of colours."""
    return any(map(is_colorbar, figure.axes))


def layout_name(axis: str) -> str:
    """`xaxis2` of `x2`."""
    return f"{axis[0]}axis{axis[1:]}"


def word_of(panels: Sequence[Panel], scale: Scale) -> str:
    """The title of an axis, which it may have left to another panel, where it is short."""
    others = [other.title for other in sharing(panels, scale)]
    found = next((title for title in (scale.title, *others) if title), "")
    return found if "\n" not in found and len(found) <= 24 else ""


def sharing(panels: Sequence[Panel], scale: Scale) -> list[Scale]:
    """The axes that move with an axis, itself among them."""
    found = [panel.x if scale.which == "x" else panel.y for panel in panels]
    return [other for other in found if shared(other.axes, scale.axes, scale.which)]


def shared(one: Axes, other: Axes, which: str) -> bool:
    """Whether two panels have a common axis."""
    group = one.get_shared_x_axes() if which == "x" else one.get_shared_y_axes()
    return bool(one is other or group.joined(one, other))


def overlay(panel: Panel, other: Panel) -> bool:
    """Whether two panels lie on each other: one has an axis of its own for some of its lines."""
    if panel is other:
        return False
    here, there = panel.axes.get_position().bounds, other.axes.get_position().bounds
    return all(abs(a - b) < _SAME for a, b in zip(here, there, strict=True))


def _linked(before: Sequence[Panel], panel: Panel, scale: Scale) -> dict[str, Any]:
    """The ties of an axis to those of the panels before: it moves with them, or lies over them."""
    told: dict[str, Any] = {}
    column = scale.which == "y"
    for other in before:
        same = shared(panel.axes, other.axes, scale.which)
        if same:
            told.setdefault("matches", other.names[column])
        if overlay(panel, other):
            told.setdefault("overlaying", other.names[column])
            told |= {"showgrid": False}
            if same:
                told["visible"] = False
            else:
                told["side"] = "right" if column else "top"
    return told


def share(value: float) -> float:
    """A share of the paper, as Plotly takes it."""
    return round(min(1.0, max(0.0, value)), 5)
