"""The report as a page: a file that requests nothing, with texts that are never markup."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from maxk_lab.execution.record import Record
from maxk_lab.reports.document import marked
from maxk_lab.reports.formats.html import html, javascript_bundle
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.visible import visible_line

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = MARKUP + "\u2028&lt;b&gt;\x1b[2J{{ 7 * 7 }}"
TAGS = {
    "b", "details", "div", "figcaption", "figure", "h2", "h3", "h4", "i", "li", "section",
    "span", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


class Parsed(HTMLParser):
    """The elements of a page with their attributes, its scripts, and its words."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.scripts = []
        self.words = ""
        self._inside = ""
        self.feed(text)

    @property
    def tags(self):
        """The names of all elements."""
        return {tag for tag, _ in self.elements}

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        self.scripts += [""] * (tag == "script")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words += data


@pytest.fixture(scope="module")
def report(lab):
    """A report with hostile texts and a failed cell."""
    cells = lab.cells(baselines=("none", "centred", "group_mean"), ns=(8,), ks=(1, 2))
    for cell in cells:
        cell["setting"] = {"environment.label": HOSTILE}
    records = [lab.record(cell) for cell in cells[1:]]
    failed = Record(cells[0], "failed", error=f"line 1\n{HOSTILE}", timings={"seconds": 2.0})
    return make_report(
        cells, [failed, *records], name=HOSTILE, description=HOSTILE, changed=[HOSTILE]
    )


@pytest.fixture(scope="module")
def page(report):
    return Parsed(rendered(report, "html"))


def texts(blocks):
    """Yield every text of the blocks except labels of lines."""
    for block in blocks:
        yield from (block.title, *block.items, *block.caption)
        yield from (column.heading for column in block.columns)
        yield from (text for row in block.rows for text in row)
        yield from texts(block.folded)


def test_the_page_requests_nothing_and_runs_only_its_scripts(page):
    assert page.tags.isdisjoint(("link", "iframe", "img", "object", "embed", "base", "form"))
    attributes = {name for _, attributes in page.elements for name in attributes}
    assert attributes.isdisjoint(("src", "href"))
    assert not any(name.startswith("on") for name in attributes)
    (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    _, bundle, script = page.scripts
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (bundle, script)
    ]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    assert bundle == javascript_bundle()
    assert len(script.strip().splitlines()) <= 40


def test_every_chart_has_one_view_as_wide_as_its_container(page):
    specs = json.loads(page.scripts[0])["specs"]
    assert len(specs) > 1
    for spec in specs:
        assert spec["width"] == "container"
        assert not {"facet", "concat", "hconcat", "vconcat", "repeat"} & spec.keys()
        assert not any("facet" in str(layer.get("encoding", {})) for layer in spec["layer"])


def test_every_text_and_number_of_the_report_is_in_the_page(page, report):
    words = "".join(page.words.split())
    for text in texts(report.blocks):
        line = re.sub("^(SUPPORTED|UNDECIDED|REFUTED) ", "", visible_line(text))
        assert "".join(line.split()) in words


def test_a_ratio_to_the_lowest_variance_is_named_a_ratio(report):
    """The page once showed it as "mean variance"."""
    tables = [block for folded in report.blocks for block in folded.folded]
    shown = {}
    for table in tables:
        for column, *texts in zip((c.heading for c in table.columns), *table.rows, strict=True):
            shown.setdefault(column, set()).update(texts)
    rows = report.studies["gradient"].rows
    ratios = {marked(row.ratios["over_lowest"]) for row in rows if row.ratios}
    assert "mean variance" not in shown
    assert shown["over lowest"] - {""} == ratios


def test_no_text_of_a_run_is_markup(page, report):
    assert page.tags - Parsed(html(make_report([], [], name="x", description="x"))).tags <= TAGS
    text = html(report)
    assert text == html(report)
    assert text.count("alert(1)") == text.count("&lt;script&gt;alert(1)") > 0
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in page.words
    assert "\\x1b[2J{{ 7 * 7 }}" in page.words


def test_a_run_without_records_is_a_page_without_tables_and_charts():
    page = Parsed(rendered(make_report([], [], name="empty"), "html"))
    assert json.loads(page.scripts[0])["specs"] == []
    assert "No cells are planned." in page.words
    assert "table" not in page.tags
