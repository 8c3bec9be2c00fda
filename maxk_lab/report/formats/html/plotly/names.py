"""The legend: one entry per name, which switches off what has this name in every panel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from maxk_lab.report.formats.html.plotly.artists.lines import read_line
from maxk_lab.report.formats.html.plotly.artists.looks import line_look, path_symbol
from maxk_lab.report.formats.html.plotly.colours import is_grey, opaque
from maxk_lab.report.formats.html.plotly.panel import Look, Panel, Series
from maxk_lab.report.formats.html.plotly.words import words

_NAMED = "<b>%{fullData.name}</b>: "


def legends(figure: Figure) -> list[Legend]:
    """The legends of a figure, and those of its panels."""
    own = [panel.get_legend() for panel in figure.axes]
    return [found for found in (*figure.legends, *own) if found is not None and found.get_visible()]


def legend_labels(figure: Figure) -> list[str]:
    """The names in the legends, each once."""
    return list(dict.fromkeys(name for one in legends(figure) for name, _ in _entries(one)))


def name_series(figure: Figure, panels: Sequence[Panel]) -> None:
    """Name all series, and give the legend of the figure one entry for each of its names.

    A series without a label has the name of the entry, or else of the series, that looks like it:
    a figure may tell in its legend alone what a colour or a marker means.
    """
    entries = {name: handle for legend in legends(figure) for name, handle in _entries(legend)}
    series = [one for panel in panels for one in panel.series]
    looks = [(look, name) for name, handle in entries.items() if (look := _look(handle))]
    looks += [(one.look, one.label) for one in series if one.label]
    for one in series:
        if one.follows is None:
            one.label = one.label or _alike(one.look, looks)
    for one in series:
        if one.follows is not None:
            one.label = one.label or one.follows.label
    taken = {one.label for one in series}
    for name, handle in entries.items():
        if name not in taken and isinstance(handle, Line2D) and panels:
            _key(panels[0], handle, name)
    for number, name in enumerate(dict.fromkeys((*entries, *(s.label for s in series)))):
        of_name = [one for panel in panels for one in panel.series if one.label == name]
        if name and of_name:
            _group(of_name, name, 1 + number, shown=name in entries)
    for one in series:
        if not one.label:
            one.trace["showlegend"] = False
            if is_background(one):
                _be_silent(one)


def is_background(series: Series) -> bool:
    """Whether a line stands back: it is grey, and nothing marks its points."""
    look = series.look
    return bool(look.dash and look.colour and not look.marker and is_grey(look.colour))


def _group(series: Sequence[Series], name: str, rank: int, *, shown: bool) -> None:
    first = min(series, key=_standing)
    for one in series:
        one.trace |= {
            "name": words(name).replace("<br>", " "),
            "legendgroup": name,
            "legendrank": rank,
            "showlegend": shown and one is first,
        }
        if "hovertemplate" in one.trace:
            one.trace["hovertemplate"] = _NAMED + one.trace["hovertemplate"]
    # Where one name is that of several grey lines of a panel, it does not tell which is pointed at.
    grey = [one for one in series if is_background(one)]
    panels = Counter((one.trace["xaxis"], one.trace["yaxis"]) for one in grey)
    if max(panels.values(), default=0) > 1:
        for one in grey:
            _be_silent(one)


def _be_silent(series: Series) -> None:
    """Give a trace no answer to the pointer."""
    series.trace["hoverinfo"] = "skip"
    series.trace.pop("hovertemplate", None)
    series.trace.pop("customdata", None)


def _standing(series: Series) -> tuple[bool, bool, int]:
    """The rank of a series among those of its name, by which the legend chooses what to look like.

    It is to look like lines with their markers or like bars, not like a band around them.
    """
    modes = ("lines+markers", "lines", "markers")
    mode = series.trace.get("mode", modes[0])
    return "fill" in series.trace, not series.own, modes.index(mode) if mode in modes else 3


def _entries(legend: Legend) -> Iterator[tuple[str, Any]]:
    for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=False):
        yield text.get_text(), handle


def _look(handle: Any) -> Look | None:
    if isinstance(handle, Line2D):
        return line_look(handle)
    if isinstance(handle, Patch):
        return Look(opaque(handle.get_facecolor()))
    if isinstance(handle, PathCollection):
        points: Any = handle
        faces = points.get_facecolors()
        return Look(opaque(faces[0]), path_symbol(points.get_paths()[0])) if len(faces) else None
    if isinstance(handle, LineCollection):
        return Look(opaque(handle.get_colors()[0]))
    return None


def _alike(look: Look, looks: Sequence[tuple[Look, str]]) -> str:
    """The name of what looks the same; failing that, of the only one that has the colour."""
    for same in (
        lambda other: other == look,
        lambda other: (other.colour, other.marker) == (look.colour, look.marker),
        lambda other: other.colour == look.colour,
    ):
        found = {name for other, name in looks if look.colour and same(other)}
        if len(found) == 1:
            return found.pop()
    return ""


def _key(panel: Panel, handle: Line2D, name: str) -> None:
    """Add an entry that explains a look which no series has alone."""
    series = read_line(panel, handle, label=name)
    if series is not None:
        series.trace |= {"x": [None], "y": [None], "hoverinfo": "skip"}
        series.trace.pop("customdata"), series.trace.pop("hovertemplate")
