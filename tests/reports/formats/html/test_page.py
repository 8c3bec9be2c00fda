"""The report as a page: one file that asks for nothing, whose texts are never markup."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest

from maxk_lab.execution.record import Record
from maxk_lab.reports.formats.html.page import SCRIPTS, html, squeezed
from maxk_lab.reports.formats.render import render, rendered_together
from maxk_lab.reports.report import Report
from maxk_lab.reports.summarise import summarise_records
from maxk_lab.reports.view import View

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = MARKUP + "\u2028&lt;b&gt;\x1b[2J{{ 7 * 7 }}"
Page = dict[str, Any]


class Read(HTMLParser):
    """The elements of a page with their attributes, its scripts, and the words between them."""

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
    def data(self) -> Page:
        """What the scripts of the page read."""
        return unsqueezed(self.scripts[0])


def unsqueezed(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def undrawn(summary: Any) -> Report:
    """The report without its figures, which take longest."""
    return Report(summary, undrawn=("Without figures.",))


@pytest.fixture
def cells(lab: Any) -> list[dict[str, Any]]:
    return lab.cells(ns=(8,), ks=(1, 2))


@pytest.fixture
def failing(lab: Any, cells: list[dict[str, Any]]) -> Any:
    """A summary of hostile texts, one of whose cells failed."""
    for cell in cells:
        cell["setting"] = {"environment.label": HOSTILE}
    records = [lab.record(cell) for cell in cells[1:]]
    failed = Record(cells[0], "failed", error=f"line 1\n{HOSTILE}", timings={"seconds": 2.0})
    return summarise_records(
        cells, [failed, *records], name=HOSTILE, description=HOSTILE, changed=[HOSTILE]
    )


def test_numbers_have_all_digits_and_those_that_json_lacks_a_word() -> None:
    told = squeezed([1 / 3, 123456.789, math.inf, -math.inf, math.nan, 3, True, HOSTILE])
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", told)
    assert unsqueezed(told)[:7] == [1 / 3, 123456.789, "inf", "-inf", None, 3, True]


def test_the_page_asks_for_nothing_and_runs_its_own_scripts_alone(failing: Any) -> None:
    page = Read(html(undrawn(failing)))
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in page.scripts[1:]
    ]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    assert len(digests) == len(SCRIPTS)


def test_no_text_of_a_run_is_markup(failing: Any) -> None:
    text = render(failing, "html")
    page = Read(text)
    plain = Read(render(summarise_records([], [], name="x", description="x"), "html"))
    assert {tag for tag, _ in page.elements} - {tag for tag, _ in plain.elements} <= {
        "table", "thead", "tbody", "tr", "th", "td", "input", "figure", "h3", "h4", "li", "ul",
        "figcaption", "dt", "dd", "code", "span", "div", "p", "b",
    }  # fmt: skip
    assert text.count("alert(1)") == text.count("&lt;script&gt;alert(1)") > 0
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in page.words
    assert "\\x1b[2J{{ 7 * 7 }}" in page.words


def test_the_table_has_every_number_and_what_it_rests_on(failing: Any) -> None:
    report = undrawn(failing)
    page = Read(html(report)).data
    section = report.sections[0]
    (table,) = page["tables"][section.name]
    columns = {column["key"]: column for column in page["columns"][section.name]}
    for place, record in enumerate(section.records):
        for name, value in record.items():
            if isinstance(value, float):
                assert table["values"][name][place] == value
            assert (name in table["values"]) == (name in columns)
        assert table["undefined"][place] == record["undefined"]
        assert dict(table["cells"][place]) == record["cells"]
        assert table["texts"]["variance"][place] == section.lines[place].text("variance")
    assert columns["environment.label"]["axis"]
    assert columns["variance_low"]["ends"]
    cells, origins = page["cells"][page["runs"][0]].values()
    (failed,) = (cell for cell in cells.values() if cell[0] == "failed")
    assert (failed[1], failed[3].startswith("line 1\n</script>")) == (2.0, True)
    assert "\\x1b" in failed[3]
    assert {cell[4] for cell in cells.values()} == {*range(len(origins))}
    settings = table["settings"]["environment"]
    first = failing.origins[table["cells"][0][0][1]]
    assert settings["of"][settings["at"][0]] == first.cell["environment"]
    assert {"id", "seed"}.isdisjoint(table["settings"])


def test_columns_and_names_are_defined(lab: Any, failing: Any) -> None:
    page = Read(html(undrawn(failing)))
    columns = {column["key"]: column for column in page.data["columns"]["gradient"]}
    assert columns["variance"]["tip"].startswith("tr Cov ĝ = E‖ĝ‖² − ‖E ĝ‖²\n")
    assert "lower is better" in columns["variance"]["tip"]
    assert columns["snr"]["heading"] == "SNR"
    assert "source: " in page.data["terms"]["baseline"]["centred"]
    assert page.data["terms"]["estimator"]["maxk"].splitlines()[0] in page.words
    training = lab.training_cells()
    trained = summarise_records(training, map(lab.training_record, training), name="it")
    for summary in (failing, trained):
        for columns in Read(html(undrawn(summary))).data["columns"].values():
            assert [one["key"] for one in columns if not (one["tip"] or one["ends"])] == []
            assert 0 < sum(one["first"] for one in columns) < 16


def test_columns_that_are_asked_for_are_all_seen_in_their_order(failing: Any) -> None:
    asked = ("baseline", "variance", "variance_low", "estimator")
    report = Report(failing, undrawn=("Without figures.",), view=View(columns=asked))
    page = Read(html(report))
    columns = page.data["columns"]["gradient"]
    assert [one["key"] for one in columns if one["first"]] == list(asked)
    assert [one["key"] for one in columns if one["axis"]] == ["baseline", "estimator"]
    assert "These rows differ in k, too, which is no column here." in page.words


def test_several_runs_are_one_page_and_the_same_records_the_same_page(
    lab: Any, cells: list[dict[str, Any]]
) -> None:
    summary = summarise_records(cells[:4], map(lab.record, cells[:4]), name="it")
    other = summarise_records(cells[:2], map(lab.record, cells[:2]), name="other")
    reports = [undrawn(one) for one in (summary, other, summary)]
    text = rendered_together(reports, "html")
    assert text == rendered_together(reports, "html")
    page = Read(text)
    names = ["it (1)", "other", "it (2)"]
    assert page.data["runs"] == names
    assert [a["aria-label"] for tag, a in page.elements if a.get("class") == "run"] == names
    rows = [len(table["cells"]) for table in page.data["tables"]["gradient"]]
    assert rows[0] == rows[2] > rows[1] > 0


def test_a_run_without_records_is_a_page_without_a_table() -> None:
    page = Read(render(summarise_records([], [], name="empty"), "html"))
    assert page.data["columns"] == {}
    assert "No cells are planned." in page.words
