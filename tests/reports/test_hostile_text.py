"""Text from sweep files and records is shown by every format, and acts in none."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from compiled_charts import marks, texts
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from maxk_lab.reports.drawing import figures
from maxk_lab.reports.formats.data import safe_text
from maxk_lab.reports.formats.latex import escape as as_latex
from maxk_lab.reports.formats.markdown import escape as as_markdown
from maxk_lab.reports.formats.render import FORMATS, rendered
from maxk_lab.reports.naming import setting_words
from maxk_lab.reports.report import make_report
from maxk_lab.visible import visible, visible_json, visible_line

PIECES = (
    "# ", "## x", "> ", "- ", "+ ", "* ", "1. ", "12) ", "===", "---", "***", "```", "~~~", "~~x~~",
    "`code`", "[x](y)", "![x](y)", "[x][y]", "[x]: y", "[^1]", "[^1]: z", "<b>", "</script>",
    "<http://a.b>", "http://a.b/c", "www.a.b", "a@b.cd", "$x$", "$$", "\\(", "&lt;", "&#64;", "|",
    "\\", "]", "[", "(", ")", ":", "!", "_x_", "**x**", "\n", "\n\n", "    ", "x", "1.5 [1, 2]",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
CONTROLS = "a\x1b[2J\x1b]0;x\x07b\x9b1m\r\x08\u202ec\u2066\u2028d\ud800\x00\x7f\ufeff"


def shown(markdown: str) -> tuple[set[str], str]:
    """The sorts of what a Markdown reader makes of a text, and the words that it shows."""
    sorts, words = set(), ""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    for token in tokens:
        sorts.add(token.type)
        for child in token.children or ():
            sorts.add(child.type)
            words += child.content
    return sorts, words


def letters(text: str) -> str:
    return "".join(text.split())


@given(TEXTS)
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    plain = {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}
    told = as_markdown(text)
    sorts, words = shown(told)
    assert sorts <= plain
    expected = visible_line(text)
    if "code_inline" not in sorts:
        assert letters(words) == letters(expected)
    in_list = {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
    assert shown(f"- {told}")[0] <= plain | in_list
    assert "heading_open" not in shown(f"before  \n{told}  \nafter")[0]
    table = f"| a | b |\n| --- | --- |\n| {told} | last |"
    assert shown(table)[1].endswith("last")
    assert shown(table)[0] & {"link_open", "image", "html_inline", "heading_open"} == set()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("12.3 [11.0, 13.9]", "12.3 [11.0, 13.9]"),
        ("-1.5", "-1.5"),
        ("see http://a.b/c?d=1.", "see `http://a.b/c?d=1.`"),
        ("max@8. WWW.x.y", "max@8. `WWW.x.y`"),
        ("[x](y)", "[x]\\(y)"),
        ("# not a title", "\\# not a title"),
        ("a\nb", "a b"),
    ],
)
def test_markdown_escapes_what_acts_and_no_more(text: str, told: str) -> None:
    assert as_markdown(text) == told


def test_what_drives_a_terminal_is_spelled_out() -> None:
    told = visible(CONTROLS)
    assert told == (
        "a\\x1b[2J\\x1b]0;x\\x07b\\x9b1m\\r\\x08\\u202ec\\u2066\\u2028d\\ud800\\x00\\x7f\\ufeff"
    )
    assert visible(told) == told
    assert visible("ĝ ρ̂ 日本\n\t👩‍💻") == "ĝ ρ̂ 日本\n\t👩‍💻"
    assert visible_line("a\r\nb\tc\u2028d") == "a b c d"
    assert json.loads(visible_json({CONTROLS: [CONTROLS]}, indent=1)) == {CONTROLS: [CONTROLS]}
    assert visible_json(CONTROLS, indent=1).isprintable()


@given(st.text(st.characters(codec=None), max_size=30))
def test_nothing_that_acts_is_left_in_any_text(text: str) -> None:
    told = visible(text)
    told.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", told)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "' =1"),
        ("\r=1", "' =1"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        (-1.5, "-1.5"),
        ("plain", "plain"),
        ("a\nb\x1b", "a b\\x1b"),
    ],
)
def test_csv_holds_no_formula(value: Any, cell: str) -> None:
    assert str(safe_text(value)) == cell


def test_latex_takes_a_text_for_no_command() -> None:
    told = as_latex("\\input{x} $y$ %z\n\n#1 ^^M & ~\x1b\r\x85")
    assert not re.search(r"(?<!\\)[$%#&](?!\S*\$)", told.replace("\\textbackslash", ""))
    assert "\n" not in told
    assert "\\input" not in told
    assert told.startswith("\\textbackslash{}input\\{x\\}")


@pytest.fixture
def hostile(lab) -> Any:
    """A summary whose texts are all hostile."""
    text = f"# [x](javascript:y) ![i](http://h/x) $\\frac{{$ =1 {CONTROLS}"
    cells = lab.cells(ns=(8,), ks=(2,))
    for cell in cells:
        cell["setting"] = {"environment.label": text}
    records = [lab.record(cell) for cell in cells[:-1]]
    return text, make_report(cells, records, name="hostile", description=text)


def test_every_format_of_a_whole_report_shows_hostile_texts(hostile) -> None:
    _, summary = hostile
    for format in FORMATS:
        told = rendered(summary, format)
        told.encode("utf-8")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", told)
    sorts, _ = shown(rendered(replace(summary, charts=tuple(figures(summary))), "markdown"))
    assert {"link_open", "html_inline"}.isdisjoint(sorts)
    assert setting_words((("environment.label", "a\x1b\nb"),)) == "label=a\\x1b b"


def test_texts_of_a_run_are_no_expressions_of_a_chart(hostile) -> None:
    _, summary = hostile
    charts = list(figures(summary))
    assert [figure.name for figure in charts] == ["variance", "snr"]
    for figure in charts:
        spec = figure.spec(600, 1)
        assert "frac" in json.dumps(spec)
        evaluated = list(texts(spec))
        assert evaluated
        assert not any("javascript" in text or "frac" in text for text in evaluated)
        marks(figure)
