"""Every format shows text from sweep files and records, and no such text has an effect."""

import json
import re
from dataclasses import replace

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
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def parsed(markdown):
    """Return the types of all parts of a Markdown text, and the words that a reader sees."""
    types, words = set(), ""
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown):
        types.add(token.type)
        for child in token.children or ():
            types.add(child.type)
            words += child.content
    return types, words


@given(TEXTS)
def test_markdown_shows_any_text_unchanged(text):
    allowed = {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}
    escaped = as_markdown(text)
    types, words = parsed(escaped)
    assert types <= allowed
    if "code_inline" not in types:
        assert "".join(words.split()) == "".join(visible_line(text).split())
    in_list = {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
    assert parsed(f"- {escaped}")[0] <= allowed | in_list
    assert "heading_open" not in parsed(f"before  \n{escaped}  \nafter")[0]
    types, words = parsed(f"| a | b |\n| --- | --- |\n| {escaped} | last |")
    assert words.endswith("last")
    assert {"link_open", "image", "html_inline", "heading_open"}.isdisjoint(types)


def test_formats_escape_what_acts_and_nothing_else():
    for text, markdown in {
        "12.3 [11.0, 13.9]": "12.3 [11.0, 13.9]",
        "-1.5": "-1.5",
        "see http://a.b/c?d=1.": "see `http://a.b/c?d=1.`",
        "max@8. WWW.x.y": "max@8. `WWW.x.y`",
        "[x](y)": "[x]\\(y)",
        "# not a title": "\\# not a title",
        "a\nb": "a b",
    }.items():
        assert as_markdown(text) == markdown
    for value, cell in {
        "=HYPERLINK(1)": "'=HYPERLINK(1)",
        "+1": "'+1",
        "@SUM(A1)": "'@SUM(A1)",
        "\t=1": "' =1",
        "-cmd|' /C calc'!A0": "'-cmd|' /C calc'!A0",
        -1.5: "-1.5",
        "a\nb\x1b": "a b\\x1b",
    }.items():
        assert str(safe_text(value)) == cell
    for text, latex in {
        "a_b & 5% {x} ~^\\": r"a\_b \& 5\% \{x\} \textasciitilde{}\textasciicircum{}"
        r"\textbackslash{}",
        "8–16 †, é, ∞\n☃\x1b": r"8–16 $\dagger$, é, $\infty$ [U+2603]\textbackslash{}x1b",
        "<a|b>": r"\textless{}a\textbar{}b\textgreater{}",
        "Δ -0.5 [-2e-03, 1] $#": r"$\Delta$ $-$0.5 [$-$2e-03, 1] \$\#",
    }.items():
        assert as_latex(text) == latex


def test_control_characters_are_spelled_out():
    spelled = visible(CONTROLS)
    assert spelled == (
        "a\\x1b[2J\\x1b]0;x\\x07b\\x9b1m\\r\\x08\\u202ec\\u2066\\u2028d\\ud800\\x00\\x7f\\ufeff"
    )
    assert visible(spelled) == spelled
    assert visible("ĝ ρ̂ 日本\n\t👩‍💻") == "ĝ ρ̂ 日本\n\t👩‍💻"
    assert visible_line("a\r\nb\tc\u2028d") == "a b c d"
    assert json.loads(visible_json({CONTROLS: [CONTROLS]}, indent=1)) == {CONTROLS: [CONTROLS]}
    assert visible_json(CONTROLS, indent=1).isprintable()
    assert setting_words((("environment.label", "a\x1b\nb"),)) == "label=a\\x1b b"


@given(st.text(st.characters(codec=None), max_size=30))
def test_no_control_character_is_left_in_any_text(text):
    spelled = visible(text)
    spelled.encode("utf-8")
    assert not ACTING.search(spelled)


@pytest.fixture(scope="module")
def hostile(lab):
    """A report with hostile texts only, and its charts."""
    text = f"# [x](javascript:y) ![i](http://h/x) $\\frac{{$ =1 {CONTROLS}"
    cells = lab.cells(baselines=("none", "centred", "subloo"), ns=(8,), ks=(2,))
    for cell in cells:
        cell["setting"] = {"environment.label": text}
    records = [lab.record(cell) for cell in cells[:-1]]
    report = make_report(cells, records, name="hostile", description=text)
    return replace(report, charts=tuple(figures(report)))


@pytest.mark.parametrize("format", FORMATS)
def test_a_report_shows_hostile_texts(hostile, format):
    text = rendered(hostile, format)
    text.encode("utf-8")
    assert not ACTING.search(text)
    assert not {"\u2028", "\u2029"} & {*text}
    if format == "markdown":
        assert {"link_open", "html_inline"}.isdisjoint(parsed(text)[0])


def test_no_text_of_a_run_is_an_expression_of_a_chart(hostile):
    assert [figure.name for figure in hostile.charts] == ["variance", "snr"]
    for figure in hostile.charts:
        spec = figure.spec(600, 1)
        assert "frac" in json.dumps(spec)
        evaluated = list(texts(spec))
        assert evaluated
        assert not any("javascript" in text or "frac" in text for text in evaluated)
        marks(figure)
