"""The surroundings of the panels: titles, the legend, and the room that these take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from maxk_lab.report.formats.html.plotly.artists.texts import yanchor
from maxk_lab.report.formats.html.plotly.grid import Frame
from maxk_lab.report.formats.html.plotly.names import legend_labels
from maxk_lab.report.formats.html.plotly.panel import SIDES, Panel
from maxk_lab.report.formats.html.plotly.scales import turned
from maxk_lab.report.formats.html.plotly.words import PIXELS_PER_INCH, pixels, words

# The width of a wide page, and what an entry of a legend takes of it, in pixels.
_WIDE = 1000.0
_KEY, _LETTER, _ENTRY = 50.0, 6.3, 20.0
_TITLE, _LEGEND = 13.0, 11.5
_LINE = 1.3
_MARGIN = 10.0
_HIGHER = 1.3
_LEAST = 120


def layout_of(
    figure: Figure, panels: Sequence[Panel], frame: Frame, *, titled: bool
) -> dict[str, Any]:
    """Plotly's layout but for the axes; it makes room for their ticks and titles itself."""
    title = figure.get_suptitle() if titled else ""
    top = (
        _MARGIN
        + max(map(title_room, panels))
        + (_LINE * _TITLE * (2 + title.count("\n")) if title else 0.0)
    )
    wide, high = (float(inches) * PIXELS_PER_INCH for inches in figure.get_size_inches())
    # A page is wider than most figures; it is to be a little higher, too.
    inner = (frame.top - frame.bottom) * high * min(_HIGHER, max(1.0, _WIDE / wide))
    below = _MARGIN + max(room_below(p, titled=bool(p.x.title)) for p in panels)
    height = inner + top + below + legend_room(figure, _WIDE)
    told: dict[str, Any] = {
        "height": round(height),
        "margin": {"l": _MARGIN, "r": _MARGIN, "t": top, "b": _MARGIN, "pad": 0},
        # So much is left of a panel, however much its ticks and titles take.
        "minreducedwidth": _LEAST,
        "minreducedheight": _LEAST,
        "font": {"size": 12},
        "hovermode": "closest",
        "barmode": "overlay",
        "annotations": [note for panel in panels for note in panel.annotations],
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0.5,
            "xanchor": "center",
            "font": {"size": _LEGEND},
            "tracegroupgap": 0,
            "maxheight": 1,
        },
    }
    told["annotations"] += _beside(figure, frame)
    if title:
        told["title"] = {
            "text": words(title),
            "font": {"size": _TITLE},
            "yref": "container",
            "y": 1 - _TITLE / height,
            "yanchor": "top",
        }
    return told


def title_room(panel: Panel) -> float:
    """The pixels that the titles of a panel take above it."""
    titles = [panel.axes.get_title(loc=side) for side in SIDES]
    return 16.0 * max(title.count("\n") + bool(title) for title in titles)


def room_below(panel: Panel, *, titled: bool = True) -> float:
    """About the pixels that the ticks of a panel, and the title of its axis, take below it."""
    names = [line for text in (panel.x.ticks or {}).values() for line in text.split("\n")]
    longest = max(map(len, names), default=0)
    lines = max((text.count("\n") + 1 for text in (panel.x.ticks or {}).values()), default=1)
    turned = abs(math.sin(math.radians(panel.x.angle)))
    ticks = 10.0 + 15.0 * lines + turned * _LETTER * longest
    return ticks + (18.0 if titled else 0.0)


def legend_room(figure: Figure, width: float) -> float:
    """About the pixels that the legend takes on a page of that width."""
    lines, used = 0, width
    for label in legend_labels(figure):
        entry = _KEY + _LETTER * len(label)
        fits = used + entry <= width
        lines, used = lines + (not fits), entry + used * fits
    return 14.0 + _ENTRY * lines if lines else 0.0


def _beside(figure: Figure, frame: Frame) -> Iterator[dict[str, Any]]:
    """The texts of the figure that are in no panel, but for its title and those of its axes."""
    named = [getattr(figure, name, None) for name in ("_suptitle", "_supxlabel", "_supylabel")]
    for text in figure.texts:
        if any(text is one for one in named) or not text.get_text().strip():
            continue
        x, y = figure.transSubfigure.inverted().transform(
            text.get_transform().transform(text.get_position())
        )
        across, height = frame.inside(float(x), float(y))
        told = {
            "text": words(text.get_text()),
            "showarrow": False,
            "xref": "paper",
            "yref": "paper",
            "x": round(across, 4),
            "y": round(height, 4),
            "xanchor": text.get_horizontalalignment(),
            "yanchor": yanchor(text),
            "font": {"size": pixels(text.get_fontsize())},
        }
        yield told | ({"textangle": turned(text)} if turned(text) else {})
