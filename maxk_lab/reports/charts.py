"""The parts that all charts share: theme, legend, axes, marks, and files by vl-convert.

A figure has panels. A panel is an Altair chart of one view that is as wide as its container. Texts
of a run are data or titles of a chart, and never part of an expression.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from maxk_lab.files import write_atomically
from maxk_lab.reports.naming import BIASED, NOT_PROVED, UNBIASED
from maxk_lab.visible import harmless

# A `pandas.DataFrame`; its stubs reject half of its methods.
Table = Any
# Six of Okabe and Ito's colours, for all kinds of colour vision, then four more.
COLOURS: tuple[str, ...] = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
COLOURS += ("#8C6D1F", "#9467bd", "#a33b3b", "#7a9a01")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left")
# Colours of an ordered quantity, from small to large.
ORDERED = ("#8ac249", "#2aa876", "#21858d", "#3b6aa0", "#7a55a8")
GREY = "#7f7f7f"
# The bias of a method → the style of its marks and lines.
STYLES = {UNBIASED: "solid", NOT_PROVED: "pale", BIASED: "hollow"}
# Style → whether marks are filled, their opacity, and the dashes of a line.
_STYLES = {"solid": (True, 1.0, []), "pale": (True, 0.45, [2, 2]), "hollow": (False, 1.0, [6, 3])}
# Pixels of each column of a PNG, of a PNG with one panel, and of a paper's column.
_PNG, _SINGLE, _COLUMN = 330, 480, 350
# The most panels of a PDF below each other; more are in two columns.
_STACKED = 3
_PNG_SCALE = 1.5
# Points of a PDF for a pixel: type of 12 pixels has 8 points, a column 3.25 inches.
_POINTS = 2 / 3
_LETTER = 6.2
# The columns of `curve_marks`.
CURVE_COLUMNS = ["x", "value", "lo", "hi", "low", "high", "line", "series", "style", "name"]
CURVE_COLUMNS += ["marked"]


def theme(ink: str = "#1c2128", background: str = "white") -> dict[str, Any]:
    """Return the config of Vega-Lite; `ink` is the colour of text and lines."""
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12}
    words |= {"titleFontWeight": "normal", "labelLimit": 240}
    grid = {"gridColor": ink, "gridOpacity": 0.12, "tickColor": ink, "tickOpacity": 0.3}
    title = {"color": ink, "subtitleColor": ink, "anchor": "start", "frame": "group"}
    return {
        "background": background,
        "font": "sans-serif",
        "axis": {**words, **grid, "domain": False, "titlePadding": 6},
        "legend": {**words, "orient": "bottom", "symbolOpacity": 1, "labelLimit": 0},
        "title": {**title, "fontSize": 13, "subtitleFontSize": 12, "offset": 8},
        "view": {"stroke": None},
        "rule": {"color": ink, "strokeOpacity": 0.6},
    }


@dataclass(frozen=True)
class Panel:
    """A chart of one view with its title; `note` names the series beyond its axis."""

    title: str
    chart: Any
    note: str = ""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The spec of Vega-Lite without title and width; unchecked, as checks are slow."""
        # Altair refuses more than 5000 rows; a log of many trainings has more.
        with alt.data_transformers.enable("default", max_rows=None, consolidate_datasets=False):
            spec: dict[str, Any] = harmless(self.chart.to_dict(validate=False))
        return {key: value for key, value in spec.items() if key not in ("config", "$schema")}


@dataclass(frozen=True)
class Figure:
    """Panels with one legend; `name` is the name of its files without their ending.

    `formula` says what is plotted, and `marks` what bars, fills and dashes mean. `legend` has the
    colour and the shape of each series; without one none is drawn. At most `columns` panels are
    side by side.
    """

    name: str
    title: str
    formula: str
    marks: str
    panels: tuple[Panel, ...]
    legend: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    columns: int = 3

    @property
    def caption(self) -> str:
        """The formula and the meaning of marks."""
        return f"{self.formula} {self.marks}".strip()

    @property
    def chart(self) -> Any:
        """The figure as an Altair chart, to show in a notebook and to change."""
        return alt.ConcatChart.from_dict(self.spec(_PNG - 100, self.columns), validate=False)

    def spec(self, plot: float, columns: int, *, titled: bool = True) -> dict[str, Any]:
        """Return the spec of all panels, each with a plot of this width in pixels."""
        notes = [_wrapped(panel.note, plot) for panel in self.panels]
        axes = [_y_axes(panel.spec) for panel in self.panels]
        # A single panel with labels needs the whole width for them.
        shared = all(axes[i] == axes[i - 1] for i in range(len(axes)) if i % columns)
        views = []
        for i, (panel, note) in enumerate(zip(self.panels, notes, strict=True)):
            row = notes[i - i % columns :][:columns]
            lines = [*note, *[""] * (max(map(len, row)) - len(note))]
            title = {"text": _wrapped(panel.title, plot)} | ({"subtitle": lines} if lines else {})
            spec = _without_y_labels(panel.spec) if shared and i % columns else panel.spec
            views.append({**spec, "title": title, "width": plot})
        width = plot * columns
        series = 40 + _LETTER * max(map(len, self.legend), default=1)
        config = theme()
        config["legend"] |= {"columns": max(1, int(width / series)), "disable": not self.legend}
        spec = {"concat": views, "columns": columns, "spacing": 24, "config": config}
        if not titled:
            return spec
        texts = {"text": _wrapped(self.title, width), "subtitle": _wrapped(self.marks, width)}
        return spec | {"title": {**texts, "fontSize": 15, "offset": 14, "frame": "bounds"}}

    def _svg(self, width: float, columns: int, *, titled: bool = True) -> str:
        """Return the figure as SVG of this width in pixels."""
        import vl_convert

        plot, svg = 0.7 * width / columns, ""
        for _ in range(2):
            spec = self.spec(plot, columns, titled=titled)
            svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
            drawn = float(re.findall(r' width="([\d.]+)"', svg)[0])
            plot = max(60.0, plot + (width - drawn) / columns)
        return svg

    def write(self, folder: Path) -> list[Path]:
        """Write `<name>.png`, `.svg` and `.pdf` offline, and return their paths.

        The PDF has no title and is as wide as a column of a paper.
        """
        import vl_convert

        columns = min(self.columns, len(self.panels))
        svg = self._svg(_PNG * columns if columns > 1 else _SINGLE, columns)
        side_by_side = 1 if len(self.panels) <= _STACKED else 2
        paper = self._svg(_COLUMN, side_by_side, titled=False)
        head, rest = paper.split(">", 1)
        head = re.sub(
            r'( width| height)="([\d.]+)"',
            lambda size: f'{size[1]}="{_POINTS * float(size[2]):.2f}"',
            head,
        )
        files = {
            "png": vl_convert.svg_to_png(svg, scale=_PNG_SCALE),
            "svg": svg.encode(),
            "pdf": vl_convert.svg_to_pdf(f"{head}>{rest}"),
        }
        paths = [folder / f"{self.name}.{ending}" for ending in files]
        for path, content in zip(paths, files.values(), strict=True):
            write_atomically(path, content)
        return paths


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, max(20, int(width / _LETTER)))


def _y_axes(spec: Mapping[str, Any]) -> list[Any]:
    return [layer["encoding"].get("y") for layer in spec["layer"]]


def _without_y_labels(spec: Mapping[str, Any]) -> dict[str, Any]:
    layers = [{**layer, "encoding": {**layer["encoding"]}} for layer in spec["layer"]]
    for encoding in (layer["encoding"] for layer in layers):
        if "y" in encoding:
            axis = {**encoding["y"].get("axis", {}), "labelExpr": "' '", "ticks": False}
            encoding["y"] = {**encoding["y"], "title": None, "axis": axis}
    return {**spec, "layer": layers}


def fills(styles: Iterable[str]) -> str:
    """Return the meaning of the fills of marks."""
    words = {
        "solid": "filled: unbiased (proved)",
        "pale": "pale: not proved",
        "hollow": "hollow: biased",
    }
    used = [text for style, text in words.items() if style in {*styles}]
    return "; ".join(used).capitalize() + "."


def chart_table(lines: Iterable[Mapping[str, Any]]) -> Table:
    """Return lines as a table; lone surrogates, which no library writes, are spelled out."""
    return pd.DataFrame(
        {
            name: value.encode(errors="backslashreplace").decode()
            if isinstance(value, str)
            else value
            for name, value in line.items()
        }
        for line in lines
    )


def ordered(count: int) -> list[str]:
    """Return `count` colours of an ordered quantity; beyond five they repeat."""
    steps = min(count, len(ORDERED)) - 1
    return [ORDERED[round(i * (len(ORDERED) - 1) / max(1, steps))] for i in range(steps + 1)]


def legend_of(
    names: Sequence[str], colours: Sequence[str] = COLOURS, reference: str = ""
) -> dict[str, tuple[str, str]]:
    """Return colour and shape of each series; a `reference` is grey.

    No pair repeats among 70 series, or among 35 with five `colours`.
    """
    others = [name for name in names if name != reference]
    turn = len(colours)
    pairs = {
        name: (colours[i % turn], SHAPES[(i + i // turn) % len(SHAPES)])
        for i, name in enumerate(others)
    } | {reference: (GREY, "circle")}
    return {name: pairs[name] for name in names}


def series(legend: Mapping[str, tuple[str, str]]) -> tuple[Any, Any]:
    """Return the encodings of colour and shape by the column `series`."""
    pairs = [*zip(*legend.values(), strict=True)]
    scales = [alt.Scale(domain=[*legend], range=[*values]) for values in pairs]
    color, shape = (
        channel("series:N", scale=scale, sort=None, title=None)
        for channel, scale in zip((alt.Color, alt.Shape), scales, strict=True)
    )
    return color, shape


def drawable(data: Table, *, log: bool = False) -> Table:
    """Return the rows whose `value` has a place on an axis."""
    return data[[math.isfinite(x) and (x > 0 or not log) for x in data.value]]


def axis_domain(data: Table, *, log: bool = False, include: Sequence[float] = ()) -> list[float]:
    """Return the ends of an axis that shows all values and nearby ends of intervals."""
    to, back = (math.log10, lambda x: 10**x) if log else (float, float)
    points = [to(x) for x in [*data.value, *include]]
    low, high = min(points, default=0.0), max(points, default=1.0)
    reach = 0.25 * ((high - low) or 1.0)
    ends = [to(x) for x in [*data.low, *data.high] if math.isfinite(x) and (x > 0 or not log)]
    low, high = max(low - reach, min([low, *ends])), min(high + reach, max([high, *ends]))
    air = 0.04 * ((high - low) or abs(high) or 1.0)
    return [back(low - air), back(high + air)]


def on_axis(data: Table, domain: Sequence[float]) -> Table:
    """Return the rows with each interval clipped to the axis.

    New columns: `lo` and `hi`, None without an interval, and `open`, -1 or 1 if the interval
    continues beyond one end of the axis, 2 beyond both. No number is NaN or infinite.
    """
    data = data.copy()
    pairs = [*zip(data.low, data.high, strict=True)]
    for place, name in enumerate(("lo", "hi")):
        data[name] = _objects(
            None if any(map(math.isnan, pair)) else min(max(pair[place], domain[0]), domain[1])
            for pair in pairs
        )
    beyond = [(low < domain[0], high > domain[1]) for low, high in pairs]
    data["open"] = [2 if all(ends) else ends[1] - ends[0] for ends in beyond]
    for name in ("low", "high"):
        data[name] = _objects(x if math.isfinite(x) else None for x in data[name])
    return data


def _objects(values: Iterable[float | None]) -> Any:
    """Return an array that keeps None, because pandas would convert it to NaN."""
    return np.array([*values, None], dtype=object)[:-1]


def interval_marks(
    x: Any, domain: Sequence[float], color: Any, shape: Any, **place: Any
) -> list[Any]:
    """Return the layers of marks along `x` with their intervals; `place` are further encodings.

    Columns: value, lo, hi, open, style, series, name, low, high. A triangle ends an interval that
    continues beyond the axis.
    """
    base = alt.Chart().encode(color=color, **place)
    bars = base.mark_rule(strokeWidth=1.5, strokeOpacity=1).encode(x="lo:Q", x2="hi:Q")
    marks = base.encode(x=x, shape=shape, tooltip=tooltips())
    layers = [bars.transform_filter("datum.lo !== null")]
    for style, (filled, opacity, _) in _STYLES.items():
        points = marks.transform_filter(f"datum.style === '{style}'")
        layers.append(points.mark_point(filled=filled, opacity=opacity, size=46))
    for side, end, direction in ((1, domain[1], "right"), (-1, domain[0], "left")):
        arrow = base.mark_point(filled=True, size=28, opacity=1, shape=f"triangle-{direction}")
        is_open = f"datum.open === {side} || datum.open === 2"
        layers.append(arrow.encode(x=alt.datum(end)).transform_filter(is_open))
    return layers


def reference_line(**axis: float) -> Any:
    """Return the layer of one line at `x` or `y`."""
    ((name, value),) = axis.items()
    datum = alt.XDatum(value) if name == "x" else alt.YDatum(value)
    line = alt.Chart().mark_rule().encode(**{name: datum})
    return line.transform_aggregate(rows="count()")


def tooltips() -> list[Any]:
    """Return the tooltip: the name of a mark, its value and its interval."""
    words = {"value": "value", "low": "from", "high": "to"}
    numbers = [alt.Tooltip(f"{name}:Q", title=word, format=".3~g") for name, word in words.items()]
    return [alt.Tooltip("name:N", title=" "), *numbers]


def curve_marks(x: Any, y: Any, color: Any, shape: Any) -> list[Any]:
    """Return the layers of a line and a band for each `line`, with dashes by `style`.

    Columns: `CURVE_COLUMNS`.
    """
    scale = alt.Scale(domain=[*_STYLES], range=[dashes for *_, dashes in _STYLES.values()])
    base = alt.Chart().encode(x=x, color=color, detail="line:N")
    bands = base.encode(y=alt.Y("lo:Q"), y2="hi:Q").transform_filter("datum.lo !== null")
    marks = base.encode(y=y, shape=shape, tooltip=tooltips()).transform_filter("datum.marked")
    dashes = alt.StrokeDash("style:N", legend=None, sort=None, scale=scale)
    return [
        bands.mark_area(opacity=0.13, clip=True),
        base.mark_line(strokeWidth=1.8, clip=True).encode(y=y, strokeDash=dashes),
        marks.mark_point(filled=True, size=40, opacity=1),
    ]


def log_ticks(domain: Sequence[float]) -> list[float]:
    """Return at most six round numbers within a logarithmic axis."""
    low, high = math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1]))
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(low, high + 1) for step in steps]
    ticks = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
    return ticks[:: -(-len(ticks) // 6)] if ticks else []


def number(value: float) -> str:
    """Return three significant digits."""
    return f"{value:.3g}".replace("-", "−")
