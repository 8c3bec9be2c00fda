"""The layout of a narrow page: panels stand below each other, each as wide as the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from maxk_lab.report.formats.html.plotly.around import legend_room, room_below, title_room
from maxk_lab.report.formats.html.plotly.artists.texts import title_of
from maxk_lab.report.formats.html.plotly.grid import (
    has_colorbar,
    layout_name,
    overlay,
    share,
    sharing,
)
from maxk_lab.report.formats.html.plotly.panel import Panel
from maxk_lab.report.formats.html.plotly.scales import Scale
from maxk_lab.report.formats.html.plotly.words import PIXELS_PER_INCH, pixels, words

_WIDTH = 340.0
_SAME = 1e-6
# The height of a panel, in pixels.
_LEAST, _MOST = 160.0, 260.0
# What a name below a panel takes at least, and each of its letters.
_NAME, _LETTER = 18.0, 5.5
_TITLE, _AIR = 18.0, 6.0
# What a scale of colours takes beside the panels.
_BAR = 75.0


def narrow(panels: Sequence[Panel], figure: Figure, layout: dict[str, Any]) -> dict[str, Any]:
    """Return what of this layout is other on a narrow page; axes are given in part."""
    # A finger moves the page, also where it touches a figure.
    told: dict[str, Any] = {"dragmode": False}
    inches = float(figure.get_size_inches()[1])
    base = [p for i, p in enumerate(panels) if not any(overlay(p, o) for o in panels[:i])]
    heights = [p.axes.get_position().height * inches * PIXELS_PER_INCH for p in base]
    if len(base) > 1:
        heights = [max(_LEAST, min(_MOST, height)) for height in heights]
    titles = [title_room(panel) or (_TITLE if _above(base, panel) else 0.0) for panel in base]
    rooms = [
        _room(panels, panel) + title for panel, title in zip(base, [*titles[1:], 0.0], strict=True)
    ]
    total = sum(heights) + sum(rooms[:-1])
    top = total
    for panel, height, room in zip(base, heights, rooms, strict=True):
        ends = [share((top - height) / total), share(top / total)]
        top -= height + room
        for other in (panel, *(p for p in panels if overlay(p, panel))):
            x, y = map(layout_name, other.names)
            told[x], told[y] = {"domain": [0.0, 1.0]}, {"domain": ends}
        for scale, name in zip((panel.x, panel.y), map(layout_name, panel.names), strict=True):
            told[name] |= _labelled(panels, scale)
    inherited = [title_of(panel, said) for panel in base if (said := _above(base, panel))]
    if inherited:
        told["annotations"] = [*layout["annotations"], *inherited]
    width = max(map(_width, base)) + (_BAR if has_colorbar(figure) else 0.0)
    if width > _WIDTH:
        told["width"] = round(width)
    # Elsewhere the highest panels may have longer titles than the first one.
    above = layout["margin"]["t"] - max(map(title_room, panels)) + title_room(base[0])
    told["margin"] = {"t": above}
    around = above + rooms[-1] + legend_room(figure, _WIDTH)
    told["height"] = round(total + around)
    return told


def _room(panels: Sequence[Panel], panel: Panel) -> float:
    """The pixels below a panel, for its ticks and their title."""
    return _AIR + room_below(panel, titled=bool(panel.x.title or _title(panels, panel.x)))


def _above(panels: Sequence[Panel], panel: Panel) -> str:
    """The title that a panel has from the one above it; empty where it has its own."""
    if title_room(panel):
        return ""
    here = panel.axes.get_position()
    found = {
        other.axes.get_position().y0: other.axes.get_title()
        for other in panels
        if other.axes.get_title()
        and abs(other.axes.get_position().x0 - here.x0) < _SAME
        and other.axes.get_position().y0 > here.y0
    }
    return found[min(found)] if found else ""


def _width(panel: Panel) -> float:
    """The pixels that names below a panel, and texts inside it, need to stand beside each other."""
    if not panel.x.is_category:
        return 0.0
    names = list((panel.x.ticks or {}).values())
    texts = [text.get_text() for text in panel.axes.texts] + ([] if panel.x.angle else names)
    longest = max((len(line) for text in texts for line in text.split("\n")), default=0)
    beside = max((len(text) for text in (panel.y.ticks or {}).values()), default=4)
    return len(names) * max(_NAME, 10.0 + _LETTER * longest) + _LETTER * beside


def _labelled(panels: Sequence[Panel], scale: Scale) -> dict[str, Any]:
    """The ticks and the title of an axis that has left them to another panel."""
    told: dict[str, Any] = {}
    others = sharing(panels, scale)
    shown = next((other for other in others if other.shows_labels()), None)
    if shown is not None:
        told |= {"showticklabels": True, "tickfont": {"size": shown.tick_size}}
    if not scale.title and (title := _title(panels, scale)):
        size = pixels(scale.axis.get_label().get_fontsize())
        told["title"] = {"text": words(title), "standoff": 6, "font": {"size": size}}
    return told


def _title(panels: Sequence[Panel], scale: Scale) -> str:
    """The title that an axis has left to the panel at the beginning of its line or its column."""
    start = 1 if scale.which == "y" else 0
    here = scale.axes.get_position().bounds
    for panel in panels:
        other, there = getattr(panel, scale.which), panel.axes.get_position().bounds
        beside = abs(here[start] - there[start]) + abs(here[start + 2] - there[start + 2]) < _SAME
        if other.title and beside:
            return str(other.title)
    titles = {other.title for other in sharing(panels, scale) if other.title}
    return titles.pop() if len(titles) == 1 else ""
