"""Texts in and around the panels, as annotations of Plotly or, where there are many, as a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.text import Annotation, Text

from maxk_lab.report.formats.html.plotly.colours import fixed
from maxk_lab.report.formats.html.plotly.panel import SIDES, Look, Panel
from maxk_lab.report.formats.html.plotly.scales import turned
from maxk_lab.report.formats.html.plotly.words import UnconvertibleError, pixels, plain, words

_ACROSS = {"left": "left", "center": "center", "right": "right"}
_UP = {"top": "top", "bottom": "bottom", "baseline": "bottom"}
# Where a text of a trace stands, seen from its point.
_BESIDE = {"left": "right", "center": "center", "right": "left"}
_ABOVE = {"top": "bottom", "middle": "middle", "bottom": "top"}


def read_texts(panel: Panel, texts: Sequence[Text], *, on_cells: bool) -> None:
    """Add the texts inside of a panel; those on coloured cells keep their colour on every paper."""
    upright = [text for text in texts if _is_plain(panel, text)]
    if upright:
        _trace(panel, upright, on_cells=on_cells)
    for text in texts:
        if not _is_plain(panel, text) and text.get_text().strip():
            panel.annotations.append(_annotation(panel, text))


def read_titles(panel: Panel) -> None:
    """Add what stands above a panel."""
    for side in SIDES:
        if said := panel.axes.get_title(loc=side):
            panel.annotations.append(title_of(panel, said, side))


def title_of(panel: Panel, said: str, side: str = "center") -> dict[str, Any]:
    """A title above a panel."""
    return {
        "text": words(said),
        "showarrow": False,
        "xref": f"{panel.names[0]} domain",
        "yref": f"{panel.names[1]} domain",
        "x": {"left": 0.0, "center": 0.5, "right": 1.0}[side],
        "y": 1.0,
        "xanchor": side,
        "yanchor": "bottom",
        "yshift": 2,
        "font": {"size": pixels(panel.axes.title.get_fontsize())},
    }


def _is_plain(panel: Panel, text: Text) -> bool:
    """Whether a text stands upright at a place of the data."""
    if isinstance(text, Annotation) or text.get_rotation() or not text.get_text().strip():
        return False
    return all(panel.along(text.get_transform()))


def _trace(panel: Panel, texts: Sequence[Text], *, on_cells: bool) -> None:
    at = panel.data([_position(text) for text in texts], panel.axes.transData)
    ink = fixed if on_cells else panel.inks.ink
    sides = [(_ABOVE[yanchor(t)], _BESIDE[_ACROSS[t.get_horizontalalignment()]]) for t in texts]
    trace = {
        "type": "scatter",
        "mode": "text",
        "x": panel.x.places(at[:, 0]),
        "y": panel.y.places(at[:, 1]),
        "text": [words(text.get_text()) for text in texts],
        "textposition": [f"{above} {beside}" for above, beside in sides],
        "textfont": {
            "color": [ink(text.get_color()) for text in texts],
            "size": [pixels(text.get_fontsize()) for text in texts],
        },
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    panel.add(trace, Look(""), "")


def _position(text: Text) -> tuple[float, float]:
    x, y = text.get_unitless_position()
    return float(x), float(y)


def _annotation(panel: Panel, text: Text) -> dict[str, Any]:
    told: dict[str, Any] = {
        "text": words(text.get_text()),
        "showarrow": False,
        "xanchor": _ACROSS[text.get_horizontalalignment()],
        "yanchor": yanchor(text),
        "align": _ACROSS[text.get_horizontalalignment()],
        "font": {
            "size": pixels(text.get_fontsize()),
            "color": panel.inks.ink(text.get_color(), text.get_alpha()),
        },
    }
    if angle := turned(text):
        told["textangle"] = angle
    box = text.get_bbox_patch()
    if box is not None:
        told["bgcolor"] = panel.inks.ink(box.get_facecolor())
    if not isinstance(text, Annotation):
        return told | _spot(panel, _position(text), text.get_transform())
    return told | _pointed(panel, text)


def _pointed(panel: Panel, text: Annotation) -> dict[str, Any]:
    """The place of a text that is written beside the point which it is about."""
    spot = _spot(panel, _unitless(text, text.xy), _coordinates(panel, text.xycoords))
    arrow = text.arrow_patch
    if text.anncoords in ("offset points", "offset pixels"):
        dx, dy = (pixels(part) for part in text.xyann)
        if arrow is None:
            return spot | {"xshift": dx, "yshift": dy}
        return spot | _arrow(panel, arrow) | {"ax": dx, "ay": -dy}
    tail = _spot(panel, _unitless(text, text.xyann), _coordinates(panel, text.anncoords))
    if arrow is None:
        return tail
    if tail["xref"] != spot["xref"] or tail["yref"] != spot["yref"] or "domain" in tail["xref"]:
        raise UnconvertibleError("an arrow between places of different kinds")
    ends = {"ax": tail["x"], "ay": tail["y"], "axref": tail["xref"], "ayref": tail["yref"]}
    return spot | _arrow(panel, arrow) | ends


def _arrow(panel: Panel, arrow: Any) -> dict[str, Any]:
    colour = panel.inks.ink(arrow.get_edgecolor())
    return {"showarrow": True, "arrowcolor": colour, "arrowwidth": 1, "arrowhead": 2}


def _unitless(text: Any, at: Any) -> tuple[float, float]:
    return float(text.convert_xunits(at[0])), float(text.convert_yunits(at[1]))


def _coordinates(panel: Panel, name: Any) -> Any:
    if name == "data":
        return panel.axes.transData
    if name == "axes fraction":
        return panel.axes.transAxes
    if hasattr(name, "transform"):
        return name
    raise UnconvertibleError(f"a text placed by {name!r}")


def _spot(panel: Panel, at: tuple[float, float], transform: Any) -> dict[str, Any]:
    """The place in Plotly's layout: along each axis by its values, or as a share of the panel."""
    own = panel.along(transform)
    inside = panel.within(at, transform)
    told: dict[str, Any] = {}
    for column, (which, scale) in enumerate((("x", panel.x), ("y", panel.y))):
        name = panel.names[column]
        told[f"{which}ref"] = name if own[column] else f"{name} domain"
        value = scale.spot(at[column]) if own[column] else float(inside[column])
        (told[which],) = plain([value])
    return told


def yanchor(text: Text) -> str:
    """The side of a text that is at its place: `top`, `middle` or `bottom`."""
    return _UP.get(text.get_verticalalignment(), "middle")
