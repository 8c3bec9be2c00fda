"""The figures of a page: drawn by the browser from their numbers, or as they were drawn here."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from maxk_lab.report.drawing.style import own_style
from maxk_lab.report.formats.html.plotly import UnconvertibleError, plotly_spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxk_lab.report.drawing.picture import Picture


def drawn(found: Iterable[tuple[str, Sequence[Picture]]]) -> Iterator[dict[str, Any]]:
    """Yield the figures of several runs, those of the same name beside each other.

    Each has its `spec` for Plotly, or else an `image`.
    """
    named = [(run, picture) for run, pictures in found for picture in pictures]
    names = list(dict.fromkeys(picture.name for _, picture in named))
    for run, picture in sorted(named, key=lambda one: names.index(one[1].name)):
        yield {
            "run": run,
            "name": picture.name,
            "title": picture.title,
            "caption": picture.caption,
            **_drawn(picture.figure),
        }


def _drawn(figure: Figure) -> dict[str, Any]:
    try:
        # The page has the title above it.
        return {"spec": plotly_spec(figure, titled=False)}
    except UnconvertibleError:
        return {"image": _image(figure)}


def _image(figure: Figure) -> str:
    """The figure as SVG, in an address that holds it."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = StringIO()
    with own_style():
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(out, metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(out.getvalue().encode()).decode("ascii")
