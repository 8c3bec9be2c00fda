"""A report as one page that opens offline and makes no requests."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from maxk_lab.reports.document import Block, label_of, with_captions
from maxk_lab.reports.report import Report
from maxk_lab.visible import visible_line

# The shapes of Vega in legends.
_GLYPHS = {
    "circle": "●",
    "square": "■",
    "triangle-up": "▲",
    "diamond": "◆",
    "cross": "✚",
    "triangle-down": "▼",
    "triangle-left": "◀",
}
_FIT_CONTAINER = {
    "width": "container",
    "autosize": {"type": "fit-x", "contains": "padding", "resize": True},
}


def html(report: Report) -> str:
    """Return the report as a page with its charts."""
    from maxk_lab.reports.charts import theme

    # Texts and lines of charts have the colour of the page, light or dark.
    config = theme(ink="currentColor", background="transparent") | {"legend": {"disable": True}}
    specs = [panel.spec | _FIT_CONTAINER for figure in report.charts for panel in figure.panels]
    return _template().render(
        title=report.title,
        blocks=_figures_second(report.blocks),
        glyphs=_GLYPHS,
        verdicts=("SUPPORTED", "UNDECIDED", "REFUTED"),
        bundle=Markup(javascript_bundle()),
        data={"specs": specs, "config": config},
    )


def _figures_second(blocks: list[Block]) -> list[Block]:
    """Return the blocks with the figures right after the answer."""
    pictures = [block for block in blocks if block.pictures]
    texts = [block for block in blocks if not block.pictures]
    place = 1 + next((i for i, block in enumerate(texts) if block.labelled), -1)
    return [*texts[:place], *pictures, *texts[place:]]


@cache
def javascript_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _digest(script: str) -> Markup:
    """Return the source of a Content-Security-Policy that allows only this script."""
    digest = hashlib.sha256(script.encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode('ascii')}'")


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["line"] = lambda words: visible_line(str(words))
    environment.filters |= {"label_of": label_of, "with_captions": with_captions, "digest": _digest}
    return environment.from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
