"""The whole figure: every artist is read, or none, for nothing may get lost silently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.spines import Spine
from matplotlib.text import Text

from maxk_lab.report.drawing.style import lay_out
from maxk_lab.report.formats.html.plotly.around import layout_of
from maxk_lab.report.formats.html.plotly.artists import cells, heat, lines, points
from maxk_lab.report.formats.html.plotly.artists.bands import banded
from maxk_lab.report.formats.html.plotly.artists.texts import read_texts, read_titles
from maxk_lab.report.formats.html.plotly.colours import Inks
from maxk_lab.report.formats.html.plotly.grid import (
    axis_layouts,
    frame_of,
    give_outer_titles,
    is_colorbar,
    word_of,
)
from maxk_lab.report.formats.html.plotly.names import name_series
from maxk_lab.report.formats.html.plotly.narrow import narrow
from maxk_lab.report.formats.html.plotly.panel import Panel
from maxk_lab.report.formats.html.plotly.scales import Scale
from maxk_lab.report.formats.html.plotly.words import UnconvertibleError

# What a panel has that is told otherwise: by its axes in the layout, and by the one legend.
_TOLD = (Spine, Axis, Legend)


def plotly_spec(figure: Figure, *, titled: bool = True) -> dict[str, Any]:
    """Return the figure as `data` and `layout` for Plotly, with the same numbers, words and looks.

    `dark` has, for each colour that needs it, the one on a dark page, and `narrow` what of the
    layout is other on a narrow one. Without `titled` the title is left out. Raises
    `UnconvertibleError` where the figure shows anything that this cannot tell.
    """
    if figure.subfigs or figure.patches or figure.lines or figure.images or figure.artists:
        raise UnconvertibleError("something that is drawn beside the panels")
    lay_out(figure)
    inks = Inks()
    shown = [axes for axes in figure.axes if axes.get_visible()]
    panels = [
        _panel(axes, 1 + number, inks)
        for number, axes in enumerate(axes for axes in shown if not is_colorbar(axes))
    ]
    if not panels:
        return {"data": [], "layout": {}, "dark": {}, "narrow": {}}
    give_outer_titles(figure, panels)
    for panel in panels:
        panel.x.word, panel.y.word = word_of(panels, panel.x), word_of(panels, panel.y)
    for panel in panels:
        _read(panel)
    frame = frame_of(panels)
    for axes in filter(is_colorbar, shown):
        heat.read_colorbar(panels[0], axes, frame)
    name_series(figure, panels)
    layout = layout_of(figure, panels, frame, titled=titled)
    return {
        "data": [series.trace for panel in panels for series in panel.series],
        "layout": layout | axis_layouts(panels, frame),
        "dark": inks.dark,
        "narrow": narrow(panels, figure, layout),
    }


def _panel(axes: Axes, number: int, inks: Inks) -> Panel:
    if axes.name != "rectilinear" or axes.child_axes:
        raise UnconvertibleError("axes that are not straight, or have others inside")
    tail = str(number) if number > 1 else ""
    return Panel(axes, Scale(axes, "x"), Scale(axes, "y"), (f"x{tail}", f"y{tail}"), inks)


def _read(panel: Panel) -> None:
    """Add everything that a panel shows, from the back to the front."""
    axes = panel.axes
    own = {id(title) for title in _titles(axes)}
    own |= {id(axes.patch), *(id(part) for group in axes.containers for part in _parts(group))}
    free = [artist for artist in axes.get_children() if id(artist) not in own]
    free = [artist for artist in free if artist.get_visible() and not isinstance(artist, _TOLD)]
    boxes = [a for a in free if isinstance(a, Rectangle) and cells.is_upright(panel, a)]
    texts = [artist for artist in free if isinstance(artist, Text)]
    apart = {id(artist) for artist in (*boxes, *texts)}
    drawn = [artist for artist in free if id(artist) not in apart]
    if boxes:
        cells.read_rectangles(panel, boxes)
    _read_artists(panel, [*axes.containers, *drawn])
    meshes = any(isinstance(artist, QuadMesh | AxesImage) for artist in drawn)
    read_texts(panel, texts, on_cells=bool(boxes) or meshes)
    read_titles(panel)


def _titles(axes: Any) -> tuple[Any, ...]:
    return axes.title, axes._left_title, axes._right_title


def _parts(container: Any) -> Iterator[Any]:
    """The artists of a container, which are read with it, not by themselves."""
    yield from container.get_children()
    if isinstance(container, BarContainer) and container.errorbar is not None:
        yield from _parts(container.errorbar)


def _read_artists(panel: Panel, artists: Sequence[Any]) -> None:
    single = [artist for artist in artists if isinstance(artist, Line2D)]
    bands = banded(panel, single, [a for a in artists if isinstance(a, PolyCollection)])
    line_of = {id(area): line for line, (area, _) in bands.items()}
    series: dict[int, Any] = {}
    for artist in sorted(artists, key=_depth):
        ends = bands[id(artist)][1] if id(artist) in bands else None
        series[id(artist)] = _read_one(panel, artist, ends)
    for area, line in line_of.items():
        if series[area] is not None:
            series[area].follows = series[line]


def _depth(artist: Any) -> float:
    parts = [artist] if isinstance(artist, Artist) else [p for p in artist.get_children() if p]
    return min((float(part.get_zorder()) for part in parts), default=0.0)


def _read_one(panel: Panel, artist: Any, ends: Any) -> Any:
    match artist:
        case ErrorbarContainer():
            # Those of bars are told with the bars.
            bars = [c.errorbar for c in panel.axes.containers if isinstance(c, BarContainer)]
            if not any(artist is one for one in bars):
                return lines.read_errorbars(panel, artist)
            return None
        case BarContainer():
            if all(cells.is_upright(panel, bar) for bar in artist.patches):
                return cells.read_bars(panel, artist)
            return [cells.read_patch(panel, bar) for bar in artist.patches][-1]
        case Line2D():
            return lines.read_line(panel, artist, ends)
        case LineCollection():
            return points.read_segments(panel, artist)
        case PathCollection():
            return points.read_points(panel, artist)
        case PolyCollection():
            return cells.read_area(panel, artist)
        case QuadMesh():
            return heat.read_mesh(panel, artist)
        case AxesImage():
            return heat.read_image(panel, artist)
        case Patch():
            return cells.read_patch(panel, artist)
    raise UnconvertibleError(f"a {type(artist).__name__} is of no sort that is known here")
