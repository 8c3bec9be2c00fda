"""A report as one page that opens offline."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from maxk_lab.reports.document import label_of, with_captions
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.reports.charts import Figure
    from maxk_lab.reports.report import Report


def html(report: Report) -> str:
    """The report as a page: its blocks, and its charts as drawings."""
    return _template().render(title=report.title, blocks=report.blocks)


def drawn(figure: Figure) -> Markup:
    """The chart as SVG."""
    import vl_convert

    return Markup(vl_convert.vegalite_to_svg(figure.whole, allowed_base_urls=[]))


@cache
def _template() -> Template:
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters |= {"line": lambda words: visible_line(str(words)), "label_of": label_of}
    page.filters |= {"drawn": drawn, "with_captions": with_captions}
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return page.from_string(text)
