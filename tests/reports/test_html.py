"""The report as a page: a file that requests nothing, with texts that are never markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest

from maxk_lab.execution.record import Record
from maxk_lab.reports.document import Block, marked
from maxk_lab.reports.formats.html import html, javascript_bundle
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import Report, make_report
from maxk_lab.visible import visible_line

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = MARKUP + "\u2028&lt;b&gt;\x1b[2J{{ 7 * 7 }}"


class Read(HTMLParser):
    """The elements of a page with their attributes, its scripts, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words += data

    @property
    def specs(self) -> list[dict[str, Any]]:
        """The specs of the charts."""
        specs: list[dict[str, Any]] = json.loads(self.scripts[0])["specs"]
        return specs


@pytest.fixture(scope="module")
def report(lab: Any) -> Report:
    """A report with hostile texts and a failed cell."""
    cells = lab.cells(ns=(8,), ks=(1, 2))
    for cell in cells:
        cell["setting"] = {"environment.label": HOSTILE}
    records = [lab.record(cell) for cell in cells[1:]]
    failed = Record(cells[0], "failed", error=f"line 1\n{HOSTILE}", timings={"seconds": 2.0})
    return make_report(
        cells, [failed, *records], name=HOSTILE, description=HOSTILE, changed=[HOSTILE]
    )


@pytest.fixture(scope="module")
def page(report: Report) -> Read:
    return Read(rendered(report, "html"))


def texts(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield every text of the blocks except labels of lines."""
    for block in blocks:
        yield from (block.title, *block.items, *block.caption)
        yield from (column.heading for column in block.columns)
        yield from (text for row in block.rows for text in row)
        yield from texts(block.folded)


def test_the_page_requests_nothing_and_runs_only_its_scripts(page: Read) -> None:
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert "href" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in page.scripts[1:]
    ]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests


def test_the_page_has_the_bundle_once_and_at_most_40_lines_of_javascript(page: Read) -> None:
    _, bundle, script = page.scripts
    assert bundle == javascript_bundle()
    assert len(script.strip().splitlines()) <= 40


def test_every_chart_has_one_view_as_wide_as_its_container(page: Read) -> None:
    assert len(page.specs) > 1
    for spec in page.specs:
        assert spec["width"] == "container"
        assert {"layer", "mark"} & spec.keys()
        assert not {"facet", "concat", "hconcat", "vconcat", "repeat"} & spec.keys()
        assert not any("facet" in str(layer.get("encoding", {})) for layer in spec["layer"])


def test_every_text_and_number_of_the_report_is_in_the_page(page: Read, report: Report) -> None:
    words = "".join(page.words.split())
    for text in texts(report.blocks):
        line = visible_line(text)
        for verdict in ("SUPPORTED ", "UNDECIDED ", "REFUTED "):
            line = line.removeprefix(verdict)
        assert "".join(line.split()) in words


def test_a_ratio_to_the_lowest_variance_is_named_a_ratio(report: Report) -> None:
    """The page once showed it as "mean variance"."""
    tables = [block for folded in report.blocks for block in folded.folded if block.columns]
    headings = [[column.heading for column in table.columns] for table in tables]
    assert not any("mean variance" in names for names in headings)
    (place,) = (i for i, names in enumerate(headings) if "over lowest" in names)
    column = headings[place].index("over lowest")
    shown = {row[column] for row in tables[place].rows} - {""}
    rows = report.studies["gradient"].rows
    assert shown == {marked(row.ratios["over_lowest"]) for row in rows if row.ratios}


def test_no_text_of_a_run_is_markup(page: Read, report: Report) -> None:
    plain = Read(html(make_report([], [], name="x", description="x")))
    assert {tag for tag, _ in page.elements} - {tag for tag, _ in plain.elements} <= {
        "b", "details", "div", "figcaption", "figure", "h2", "h3", "h4", "i", "li", "section",
        "span", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul",
    }  # fmt: skip
    text = html(report)
    assert text.count("alert(1)") == text.count("&lt;script&gt;alert(1)") > 0
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in page.words
    assert "\\x1b[2J{{ 7 * 7 }}" in page.words


def test_equal_records_make_equal_pages(report: Report) -> None:
    assert rendered(report, "html") == rendered(report, "html")


def test_a_run_without_records_is_a_page_without_tables_and_charts() -> None:
    page = Read(rendered(make_report([], [], name="empty"), "html"))
    assert page.specs == []
    assert "No cells are planned." in page.words
    assert "table" not in [tag for tag, _ in page.elements]
