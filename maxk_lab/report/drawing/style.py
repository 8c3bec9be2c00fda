"""The part that all figures share: colours, panels, one legend, files that do not change."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from maxk_lab.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with every kind of colour vision; markers, without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_METHOD_MARKERS = (*MARKERS, "<", ">", "p", "h")
STYLE: Any = {
    # Names in a sweep file are words, not formulas.
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "maxk-lab",
    "font.size": 9,
    "axes.titlesize": 9,
    # Above the axes, where nothing else is: to look for it takes a tenth of the drawing.
    "axes.titley": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}
_TITLE_SIZE = 9.5
_LEGEND_SIZE = 8.5
_TITLE_LINES = 3
# Inches per letter of one point, on average, in titles and in legends; inches per legend line.
_LETTER = 0.0078
_LABEL_LETTER = 0.0072
_LEGEND_LINE = 0.19
_DOTS_PER_INCH = 150


@contextmanager
def own_style() -> Iterator[None]:
    """Draw in one style, whatever a `matplotlibrc` says.

    It may lie in the current folder, and name code to run or have LaTeX run over every label.
    """
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def look(index: int) -> dict[str, Any]:
    """Colour and marker of the line of that number; no pair of them comes twice in the first 64."""
    turn = index // len(COLOURS)
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[(index + turn) % len(MARKERS)],
    }


def shades(count: int) -> list[dict[str, Any]]:
    """Colour and marker of so many lines that have an order, such as n: from light to dark."""
    import matplotlib as mpl

    scale = mpl.colormaps["viridis_r"]
    # The ends of the scale are hard to see, on white and on black.
    at = [0.55] if count == 1 else [0.22 + 0.63 * i / (count - 1) for i in range(count)]
    return [
        {"color": mpl.colors.to_hex(scale(share)), "marker": MARKERS[i % len(MARKERS)]}
        for i, share in enumerate(at)
    ]


def looks(ks: Sequence[int], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Colour and marker of lines with these K and methods.

    A colour per K, which figures of trainings show first, and a marker per method, where both vary.
    Where one of the two does not, or there are more than there are colours or markers, each line
    has its own `look`.
    """
    colours, markers = sorted(set(ks)), list(dict.fromkeys(methods))
    one_varies = min(len(colours), len(markers)) < 2
    if one_varies or len(colours) > len(COLOURS) or len(markers) > len(_METHOD_MARKERS):
        return [look(index) for index in range(len(ks))]
    return [
        {"color": COLOURS[colours.index(k)], "marker": _METHOD_MARKERS[markers.index(method)]}
        for k, method in zip(ks, methods, strict=True)
    ]


def panels(
    rows: int,
    columns: int,
    size: tuple[float, float],
    *,
    sharex: Literal["all", "row"] = "all",
    sharey: bool | Literal["row", "col"] = True,
    heights: Sequence[float] = (),
) -> tuple[Figure, Any]:
    """A figure of that size in inches and its axes [rows, columns], with common axes by default.

    `heights` are those of the rows in proportion to each other, the same unless given.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(
        rows,
        columns,
        squeeze=False,
        sharex=sharex,
        sharey=sharey,
        height_ratios=heights or None,
    )
    return figure, grid


def finish(figure: Figure, axes: Any, title: str) -> None:
    """Add the title above and one legend for all panels below, of the lines that can be seen.

    The figure grows by the lines that these take beyond two each. It is as wide as it was made, or
    as a title of three lines needs.
    """
    handles: dict[str, Any] = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            if not _beyond(panel, handle):
                handles.setdefault(label, handle)
    width, height = figure.get_size_inches()
    width = wide_enough(title, width)
    columns = _legend_columns(list(handles), width)
    lines = wrapped(title, width)
    extra = max(0, lines.count("\n") - 1) + max(0, -(-len(handles) // columns) - 2)
    figure.set_size_inches(width, height + _LEGEND_LINE * extra)
    figure.suptitle(lines, fontsize=_TITLE_SIZE)
    if handles:
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=columns,
            columnspacing=1.2,
            fontsize=_LEGEND_SIZE,
            frameon=False,
        )


def wide_enough(title: str, width: float) -> float:
    """The inches in which the title takes at most three lines, or its own if these are more.

    They are no fewer than `width`.
    """
    fewest = max(_TITLE_LINES, len(title.splitlines()))
    while wrapped(title, width).count("\n") >= fewest:
        width += 0.1
    return width


def wrapped(title: str, width: float) -> str:
    """The lines of a title broken where they would leave a figure of that many inches."""
    letters = max(20, int(0.95 * width / (_LETTER * _TITLE_SIZE)))
    return "\n".join(textwrap.fill(line, letters) for line in title.splitlines())


def legend_width(labels: Sequence[str], lines: int) -> float:
    """The inches in which a legend of these labels has so many lines at most."""
    columns = -(-len(labels) // lines)
    return columns * (0.5 + max(map(len, labels), default=0) * _LABEL_LETTER * _LEGEND_SIZE)


def _beyond(panel: Any, handle: Any) -> bool:
    """Whether a line has nothing within the ends that the y axis was given."""
    from matplotlib.lines import Line2D

    drawn = isinstance(handle, Line2D) and handle.get_transform() == panel.transData
    if not drawn or panel.get_autoscaley_on():
        return False
    low, high = sorted(panel.get_ylim())
    values = np.asarray(handle.get_ydata(), dtype=float)
    values = values[np.isfinite(values)]
    return len(values) > 0 and not bool(((values >= low) & (values <= high)).any())


def _legend_columns(labels: Sequence[str], width: float) -> int:
    longest = max(map(len, labels), default=0)
    fitting = int(width / (0.5 + longest * _LABEL_LETTER * _LEGEND_SIZE) + 1e-9)
    return max(1, min(len(labels), fitting, 6))


def bars(values: Sequence[Interval]) -> Any:
    """Distances [2, len] from each value to its ends, never negative (a point may lie outside)."""
    return np.maximum(0.0, [[v.value - v.low for v in values], [v.high - v.value for v in values]])


def save(figure: Figure, out: Path, name: str) -> list[Path]:
    """Write `<name>.png` and `<name>.svg`, the same bytes each time, in one layout."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    figure.set_dpi(_DOTS_PER_INCH)
    lay_out(figure)
    png: Any = FigureCanvasAgg(figure)
    png.print_png(paths[0], metadata={"Software": None})
    svg: Any = FigureCanvasSVG(figure)
    svg.print_svg(paths[1], metadata={"Date": None})
    return paths


def lay_out(figure: Figure) -> None:
    """Put all parts in their places, once: it measures all texts.

    `savefig` would do so, and draw once for nothing, for each file.
    """
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")


def unused(name: str, taken: Collection[str]) -> str:
    """`name` as the name of a file, numbered if it is one of those `taken`."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    if safe not in taken:
        return safe
    return next(f"{safe}-{i}" for i in range(2, 1000) if f"{safe}-{i}" not in taken)
