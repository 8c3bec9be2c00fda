"""The part that all charts share: looks, marks with intervals, panels, and files by vl-convert.

A chart is an Altair spec made of a plain table. Texts of a run stand in it as data or titles alone,
never in an expression, and every field has a plain word for its name.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from maxk_lab.files import write_atomically
from maxk_lab.visible import harmless

# A `pandas.DataFrame`, of whose methods its stubs refuse half.
Table = Any
# Okabe and Ito's palette, distinct with every kind of colour vision, but for black, which a dark
# page hides; shapes are distinct without colour. Colours of an order, from small to large.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left")
ORDERED = ("#8ac249", "#2aa876", "#21858d", "#3b6aa0", "#7a55a8")
GREY = "#7f7f7f"
WIDTH, STEP, COLUMNS = 200, 19, 3
# The height of a line per method.
LINE = alt.Step(STEP, **{"for": "position"})
CELL = alt.Step(46)
_LEGEND_LETTERS, _TITLE_LETTERS = 95, 100
# Pixels of a PNG for each unit of a chart.
_PNG_SCALE = 1.5


def theme(*, dark: bool = False) -> dict[str, Any]:
    """The config of Vega-Lite: words and lines in the ink of a page, nothing behind them."""
    ink, quiet, grid = (
        ("#e4e8ed", "#a0abb7", "#37404a") if dark else ("#1c2128", "#59636e", "#e3e6ea")
    )
    words = {"labelColor": ink, "titleColor": ink, "titleFontWeight": "normal", "labelLimit": 340}
    return {
        "background": "transparent" if dark else "white",
        "font": "sans-serif",
        "axis": {**words, "gridColor": grid, "domain": False, "tickColor": grid, "titlePadding": 6},
        "header": {**words, "labelFontSize": 11, "titleFontSize": 11},
        "legend": {**words, "orient": "bottom", "titleFontSize": 11, "symbolStrokeWidth": 1.6},
        "title": {
            "color": ink,
            "subtitleColor": quiet,
            "anchor": "start",
            "fontSize": 13,
            "subtitleFontSize": 11,
            "offset": 12,
        },
        "view": {"stroke": None},
        "text": {"color": ink},
        "rule": {"color": quiet, "strokeWidth": 1},
    }


@dataclass(frozen=True)
class Figure:
    """A chart with the words that it needs; `name` is that of its files, without what follows.

    `title` says in plain words what is shown, and `caption` how to read it.
    """

    name: str
    title: str
    caption: str
    chart: Any

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The spec of Vega-Lite, without its title and looks, for a page that has its own."""
        return {key: value for key, value in self.whole.items() if key not in ("title", "config")}

    @cached_property
    def whole(self) -> dict[str, Any]:
        """The whole spec; it is not checked, which takes longer than to draw it."""
        # Altair refuses more than 5000 rows, which a log of many trainings has.
        with alt.data_transformers.enable("default", max_rows=None):
            found: dict[str, Any] = harmless(self.chart.to_dict(validate=False))
        return found

    def write(self, folder: Path) -> list[Path]:
        """Write `<name>.png`, `.svg` and `.pdf`; nothing is fetched from anywhere."""
        import vl_convert

        svg = vl_convert.vegalite_to_svg(self.whole, allowed_base_urls=[])
        files = {
            "png": vl_convert.svg_to_png(svg, scale=_PNG_SCALE),
            "svg": svg.encode(),
            "pdf": vl_convert.svg_to_pdf(svg),
        }
        paths = [folder / f"{self.name}.{ending}" for ending in files]
        for path, content in zip(paths, files.values(), strict=True):
            write_atomically(path, content)
        return paths


def finished(chart: Any, title: str, subtitle: str = "") -> Any:
    """The chart with its title and the looks of all charts."""
    lines = textwrap.wrap(title, _TITLE_LETTERS) or [""]
    chart.title = alt.Title(lines, subtitle=subtitle) if subtitle else alt.Title(lines)
    chart.config = alt.Config.from_dict(theme(), validate=False)
    return chart


def table_of(lines: Iterable[Mapping[str, Any]]) -> Table:
    """Lines as a table; halves of letters, which no library can write, are spelled out."""
    return pd.DataFrame(
        {
            name: one.encode(errors="backslashreplace").decode() if isinstance(one, str) else one
            for name, one in line.items()
        }
        for line in lines
    )


def ordered(count: int) -> list[str]:
    """So many colours of an order, from small to large; beyond five they come again."""
    steps = min(count, len(ORDERED)) - 1
    return [ORDERED[round(i * (len(ORDERED) - 1) / max(1, steps))] for i in range(steps + 1)]


def looks(names: Sequence[str], colours: Sequence[str] = COLOURS, *, reference: str = "") -> Any:
    """Colour and shape of the lines or marks of these names, in one legend below.

    No pair of them comes twice among the first 49. That of the `reference` is grey.
    """
    others = [name for name in names if name != reference]
    turn = len(colours)
    found = {
        name: (colours[place % turn], SHAPES[(place + place // turn) % len(SHAPES)])
        for place, name in enumerate(others)
    } | {reference: (GREY, "circle")}
    names = list(names)
    columns = max(1, min(len(names), _LEGEND_LETTERS // (4 + max(map(len, names), default=1))))
    legend = alt.Legend(title=None, columns=columns, symbolOpacity=1)
    of: dict[str, Any] = {"legend": legend, "sort": None}
    colour, shape = (
        alt.Scale(domain=names, range=[found[name][place] for name in names]) for place in (0, 1)
    )
    return alt.Color("look:N", scale=colour, **of), alt.Shape("look:N", scale=shape, **of)


def bounded(
    data: Table, *, log: bool = False, least: float | None = None
) -> tuple[Table, list[float]]:
    """The rows with a value that can be drawn, and the ends of their axis.

    The axis holds all values and, of their intervals, what is not far beyond; `least` is a value
    that it holds, too. New columns are `lo` and `hi`, the ends of a bar within the axis, None
    where there is none, and `open`, -1 or 1 where it goes on beyond. Nothing is NaN or infinite.
    """
    to, back = (math.log10, lambda x: 10**x) if log else (float, float)

    def drawable(x: float) -> bool:
        return math.isfinite(x) and (x > 0 or not log)

    shown = data[data.value.map(drawable).astype(bool)].copy()
    points = [to(x) for x in [*shown.value, *([] if least is None else [least])]]
    low, high = min(points, default=0.0), max(points, default=1.0)
    reach = 0.25 * ((high - low) or 1.0)
    ends = [to(x) for x in [*shown.low, *shown.high] if drawable(x)]
    low, high = max(low - reach, min([low, *ends])), min(high + reach, max([high, *ends]))
    air = 0.04 * ((high - low) or abs(high) or 1.0)
    domain = [back(low - air), back(high + air)]
    bars = [*zip(shown.low, shown.high, strict=True)]
    known = [not math.isnan(one + other) or one < other for one, other in bars]
    cut = [[min(max(end, domain[0]), domain[1]) for end in bar] for bar in bars]
    for name, place in (("lo", 0), ("hi", 1)):
        shown[name] = _column(
            bar[place] if so else None for bar, so in zip(cut, known, strict=True)
        )
    shown["open"] = [int(high > domain[1]) - int(low < domain[0]) for low, high in bars]
    for end in ("low", "high"):
        shown[end] = _column(x if math.isfinite(x) else None for x in shown[end])
    return shown, domain


def _column(values: Iterable[float | None]) -> Any:
    """Values that stay as they are: a None is no NaN."""
    found = np.array([*values, None], dtype=object)
    return found[:-1]


def intervals(x: Any, domain: Sequence[float], color: Any, shape: Any, **place: Any) -> list[Any]:
    """The layers of marks along `x` with their bars; hollow where `solid` is false.

    An interval that goes on beyond the axis ends in a triangle. `place` are further encodings.
    """
    base = alt.Chart().encode(color=color, **place)
    bars = base.mark_rule(strokeWidth=1.3).encode(x="lo:Q", x2="hi:Q")
    marks = base.encode(x=x, shape=shape, tooltip=tips())
    layers = [
        bars.transform_filter("datum.lo !== null"),
        marks.transform_filter("datum.solid").mark_point(filled=True, size=42, opacity=1),
        marks.transform_filter("!datum.solid").mark_point(filled=False, size=36, opacity=1),
    ]
    for side, end, way in ((1, domain[1], "right"), (-1, domain[0], "left")):
        arrow = base.mark_point(filled=True, size=28, opacity=1, shape=f"triangle-{way}")
        layers.append(arrow.encode(x=alt.datum(end)).transform_filter(f"datum.open === {side}"))
    return layers


def reference(**at: float) -> Any:
    """The layer of a line that values are judged by: one in each panel, at `x` or `y`."""
    ((axis, value),) = at.items()
    datum = alt.XDatum(value) if axis == "x" else alt.YDatum(value)
    line = alt.Chart().mark_rule().encode(**{axis: datum})
    return line.transform_aggregate(rows="count()")


def tips() -> list[Any]:
    """The words under the pointer: what a mark is, its value and its interval."""
    words = {"value": "value", "low": "from", "high": "to"}
    numbers = [alt.Tooltip(f"{name}:Q", title=word, format=".3~g") for name, word in words.items()]
    return [alt.Tooltip("told:N", title=" "), *numbers]


def panels(
    data: Table,
    draw: Callable[[Table, bool], Sequence[Any]],
    rows: str = "",
    *,
    width: Any = WIDTH,
    height: Any = LINE,
    columns: int = COLUMNS,
) -> Any:
    """Panels by `rows` from above, each line of them with its own axes, by `panel` from the left.

    `draw` makes the layers of a line of panels from its data; the last line is told to have the
    title of the x axis. A line per method is the height of all panels unless it is given.
    """
    groups = [part for _, part in data.groupby(rows, sort=False)] if rows else [data]
    # Below an empty place in the last line an axis would hang in the air.
    columns = 2 if data.panel.nunique() == 4 and not rows else columns
    lines = []
    for part in groups:
        facet = alt.Facet("panel:N", sort=list(dict.fromkeys(part.panel)), title=None)
        layered = alt.layer(*draw(part, part is groups[-1]), data=part).properties(
            width=width, height=height
        )
        lines.append(layered.facet(facet=facet, columns=columns, spacing=12))
    return lines[0] if len(lines) == 1 else alt.vconcat(*lines, spacing=14)


def curves(x: Any, y: Any, color: Any, shape: Any) -> list[Any]:
    """The layers of a line for each `line` of the data, broken where `broken`, with its band.

    Where `marked` the line has a mark, and hollow if not `solid`.
    """
    broken = alt.StrokeDash("broken:N", legend=None, sort=None).scale(
        domain=[False, True], range=[[], [5, 3]]
    )
    base = alt.Chart().encode(x=x, color=color, detail="line:N")
    ends = base.encode(y=alt.Y("lo:Q"), y2="hi:Q").transform_filter("datum.lo !== null")
    marks = base.encode(y=y, shape=shape, tooltip=tips()).transform_filter("datum.marked")
    return [
        ends.mark_area(opacity=0.13, clip=True),
        base.mark_line(strokeWidth=1.6, clip=True).encode(y=y, strokeDash=broken),
        marks.transform_filter("datum.solid").mark_point(filled=True, size=34, opacity=1),
        marks.transform_filter("!datum.solid").mark_point(filled=False, size=34, opacity=1),
    ]


def off_axis(data: Table, x: str, *, zero: bool, better: int = 0) -> tuple[Table, Table]:
    """The lines that can share an axis, and a note for each that would flatten the others there.

    Such a line is more than three times as far from 0, or else from the median of all lines, as
    half of the lines are; two of five leave at most. Where values above (1) or below (-1) are
    `better`, none leaves on that side. A note has its `text`, its panel and its `rank` among those
    on its side.
    """
    centre = 0.0 if zero else data.groupby(x).value.transform("median")
    below, above = (sign * (data.value - centre) for sign in (-1, 1))
    ends = pd.DataFrame({-1: below, 1: above}).groupby(data.line, sort=False).max()
    far = ends.max(axis=1)
    leaves = (far > 3 * far.median()) & (far.median() > 0)
    if better:
        leaves &= ends[-better] > ends[better]
    gone = far[leaves].nlargest(int(0.4 * len(far))).index
    kept, left = data[~data.line.isin(gone)], data[data.line.isin(gone)]
    notes = (
        left.groupby(["panel", "line", "look"], sort=False).value.agg(["min", "max"]).reset_index()
    )
    if len(notes):
        notes["text"] = [
            f"{look}: {low:.3g} to {high:.3g}"
            for look, low, high in zip(notes["look"], notes["min"], notes["max"], strict=True)
        ]
        notes["above"] = notes["min"] > kept.value.median()
        notes["rank"] = notes.groupby(["panel", "above"]).cumcount()
    return kept, notes


def heat(x: Any, y: Any, color: Any, *, light: str) -> list[Any]:
    """The layers of cells with their `text`, coloured by value; white words where not `light`."""
    base = alt.Chart().encode(x=x, y=y)
    words = alt.condition(light, alt.value("black"), alt.value("white"))
    return [
        base.mark_rect().encode(color=color, tooltip=tips()),
        base.mark_text(fontSize=10).encode(text="text:N", color=words),
    ]


def decades(domain: Sequence[float]) -> list[float]:
    """At most six round numbers within an axis that is logarithmic."""
    low, high = math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1]))
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(low, high + 1) for step in steps]
    ticks = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
    return ticks[:: -(-len(ticks) // 6)] if ticks else []


def number(value: float) -> str:
    """Three digits at most, as a cell has room for."""
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.0e}".replace("e+0", "e")
