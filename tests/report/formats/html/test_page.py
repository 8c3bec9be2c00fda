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
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk_lab.report.document import Section
from maxk_lab.report.formats.html import assets
from maxk_lab.report.formats.html.columns import columns
from maxk_lab.report.formats.html.pack import packed, squeezed
from maxk_lab.report.formats.html.page import html, together
from maxk_lab.report.formats.render import render, rendered_together
from maxk_lab.report.report import Report
from maxk_lab.report.summarise import summarise_records
from maxk_lab.report.view.view import View
from maxk_lab.sweeps.run.record import Record

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


def unpacked(column: Any, count: int) -> list[Any]:
    """The values of a column, as page.js has them."""
    if isinstance(column, list):
        return column
    if "all" in column:
        return [column["all"]] * count
    return [column["of"][place] for place in column["at"]]


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


def test_a_column_is_packed_and_unpacked() -> None:
    for values in (
        [1, 2, 3],
        [None] * 4,
        ["a", "b"] * 8,
        [0.1, None, 0.2],
        [{"a": "b"}] * 3 + [{}],
    ):
        assert unpacked(packed(values), len(values)) == values
    assert "all" in packed(["x"] * 9)
    assert "of" in packed(["x", "y"] * 9)


@settings(max_examples=30)
@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
))  # fmt: skip
def test_what_is_squeezed_is_letters_that_no_reader_takes_for_markup(value: Any) -> None:
    told = squeezed({"a": value})
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", told)
    unsqueezed(told)


def test_numbers_have_all_digits_and_those_that_json_lacks_a_word() -> None:
    found = unsqueezed(squeezed([1 / 3, 123456.789, math.inf, -math.inf, math.nan, 3, True]))
    assert found == [1 / 3, 123456.789, "inf", "-inf", None, 3, True]


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
    assert len(digests) == len(assets.SCRIPTS)


def test_no_text_of_a_run_is_markup(failing: Any) -> None:
    text = render(failing, "html")
    page = Read(text)
    plain = Read(render(summarise_records([], [], name="x", description="x"), "html"))
    assert {tag for tag, _ in page.elements} - {tag for tag, _ in plain.elements} <= {
        "table", "thead", "tbody", "tr", "th", "td", "input", "figure", "h3", "h4", "li", "ul",
        "figcaption", "code", "span", "div", "p", "b",
    }  # fmt: skip
    assert text.count("alert(1)") == text.count("&lt;script&gt;alert(1)") > 0
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in page.words
    assert "\\x1b[2J{{ 7 * 7 }}" in page.words


def test_the_table_has_every_number_and_what_it_rests_on(lab: Any, failing: Any) -> None:
    report = undrawn(failing)
    page = Read(html(report)).data
    (run,), (section, *_) = page["runs"], report.sections
    table = run["tables"][section.name]
    for place, record in enumerate(section.records):
        for column in page["columns"][section.name]:
            name = column["key"]
            values = unpacked(table["values"][name], table["rows"])
            if isinstance(record.get(name), float):
                assert values[place] == pytest.approx(record[name], rel=1e-5), name
                assert (name + "_low" in record) == column["ends"]
        reasons = unpacked(table["undefined"], table["rows"])[place]
        assert reasons == record["undefined"]
        seeds = unpacked(table["seeds"], table["rows"])[place]
        assert dict(zip(seeds, table["cells"][place].split(), strict=True)) == record["cells"]
    assert "environment.label" in [column["key"] for column in page["columns"][section.name]]
    count = sum(len(record["cells"]) for record in section.records)
    cells = {name: unpacked(run["cells"][name], count) for name in ("status", "error", "seconds")}
    assert cells["status"].count("failed") == 1
    place = cells["status"].index("failed")
    assert cells["error"][place].startswith("line 1\n</script>")
    assert "\\x1b" in cells["error"][place]
    assert cells["seconds"][place] == 2.0
    spec = {key: unpacked(value, table["rows"])[0] for key, value in table["spec"].items()}
    assert spec["environment"] == failing.origins[table["cells"][0].split()[0]].cell["environment"]
    assert {"id", "seed"}.isdisjoint(spec)


def test_columns_and_names_are_defined(failing: Any) -> None:
    page = Read(html(undrawn(failing))).data
    told = {column["key"]: column for column in page["columns"]["gradient"]}
    assert told["variance"]["formula"] == "tr Cov ĝ = E‖ĝ‖² − ‖E ĝ‖²"
    assert told["variance"]["better"] == "lower"
    assert told["snr"]["heading"] == "SNR"
    assert told["label" if "label" in told else "environment.label"]["axis"]
    assert not {"variance_low", "variance_about", "cells", "undefined"} & set(told)
    assert page["names"]["baseline"]["centred"]["formula"]
    assert page["names"]["estimator"]["maxk"]["source"]


def test_every_column_has_its_meaning(lab: Any, failing: Any) -> None:
    training = lab.training_cells()
    trained = summarise_records(training, map(lab.training_record, training), name="it")
    for summary in (failing, trained):
        for section in Report(summary).sections:
            told = columns([section])
            assert [c["key"] for c in told if not (c.get("meaning") or c.get("formula"))] == []
            assert 0 < sum(column["first"] for column in told) < 16
            assert {*section.first} & {column["key"] for column in told if column["first"]} or (
                not section.first
            )


def test_a_meaning_of_the_section_comes_before_that_of_a_measure() -> None:
    records = ({"estimator": "maxk", "optimum": "exact", "made": 1, "made@2": 2.0},)
    meanings = {"optimum": "where it is from", "made*": "by hand"}
    told = {c["key"]: c for c in columns([Section("one", (), records, ("made",), meanings)])}
    assert told["optimum"]["meaning"] == "where it is from"
    assert told["made"]["meaning"] == told["made@2"]["meaning"] == "by hand"
    assert [key for key, column in told.items() if column["first"]] == ["made"]
    assert (told["made"]["kind"], told["made@2"]["kind"]) == ("whole", "number")


def test_columns_that_are_asked_for_are_all_seen_in_their_order(failing: Any) -> None:
    asked = ("baseline", "variance", "variance_low", "estimator")
    report = Report(failing, undrawn=("Without figures.",), view=View(columns=asked))
    page = Read(html(report))
    told = page.data["columns"]["gradient"]
    assert [column["key"] for column in told] == list(asked)
    assert all(column["first"] for column in told)
    assert [column["key"] for column in told if column["axis"]] == ["baseline", "estimator"]
    assert "These rows differ in k, too, which is no column here." in page.words


def test_the_same_records_are_the_same_page(lab: Any, cells: list[dict[str, Any]]) -> None:
    first, second = (
        html(undrawn(summarise_records(cells, map(lab.record, cells), name="it"))) for _ in range(2)
    )
    assert first == second


def test_several_runs_are_one_page(lab: Any, cells: list[dict[str, Any]]) -> None:
    summary = summarise_records(cells, map(lab.record, cells), name="it")
    other = summarise_records(cells[:2], map(lab.record, cells[:2]), name="other")
    text = rendered_together([undrawn(one) for one in (summary, other, summary)], "html")
    page = Read(text)
    names = ["it (1)", "other", "it (2)"]
    assert [run["name"] for run in page.data["runs"]] == names
    assert [a["aria-label"] for tag, a in page.elements if a.get("class") == "run"] == names
    rows = [run["tables"]["gradient"]["rows"] for run in page.data["runs"]]
    assert rows[0] == rows[2] > rows[1] > 0
    assert text == together([undrawn(one) for one in (summary, other, summary)])


def test_a_run_without_records_is_a_page_without_a_table(lab: Any) -> None:
    page = Read(render(summarise_records([], [], name="empty"), "html"))
    assert page.data["columns"] == {}
    assert "No cells are planned." in page.words
