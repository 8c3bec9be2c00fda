"""Every format says the same numbers and their basis, and prints none without an interval."""

import csv
import io
import json
import re
from types import SimpleNamespace

import pytest

from maxk_lab.errors import LabError
from maxk_lab.reports.document import SAME, Block, Column, compact, number, with_captions
from maxk_lab.reports.formats.latex import escape
from maxk_lab.reports.formats.render import FORMATS, render
from maxk_lab.reports.formats.terminal import terminal
from maxk_lab.reports.summarise import summarise_records
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import MEASURES


@pytest.fixture(scope="module")
def summary(lab):
    """Two stages, one failed cell, one not run."""
    cells = lab.cells(ns=(8, 16), ks=(2,), stages=(0, 200))
    lost, absent = (
        c["id"] for c in cells if c["baseline"] == "subloo" and c["stage"] == 0 and c["seed"] == 1
    )
    records = [
        lab.record(c, status="failed" if c["id"] == lost else "done")
        for c in cells
        if c["id"] != absent
    ]
    return summarise_records(cells, records, name="my_sweep", description="Which is 100% best?")


@pytest.mark.slow
def test_every_format_has_the_same_numbers(summary):
    row = next(
        row
        for row in summary.studies["gradient"].rows
        if row.key.baseline == "centred" and row.key.stage == 200
    )
    found = row.intervals["variance"]
    for format, wide in (("terminal", {"width": 200}), ("markdown", {}), ("latex", {})):
        assert compact(found) in render(summary, format, **wide)
    (in_json,) = (
        r
        for r in json.loads(render(summary, "json"))["gradient"]
        if r["cells"] == {str(s): c for s, c in row.cells.items()}
    )
    (in_csv,) = (
        r
        for r in csv.DictReader(io.StringIO(render(summary, "csv")))
        if r["cells"] == " ".join(row.cells.values())
    )
    for ending, value in (("", found.value), ("_low", found.low), ("_high", found.high)):
        assert in_json[f"variance{ending}"] == float(in_csv[f"variance{ending}"]) == value


def test_undefined_is_null_with_its_reason(summary):
    rows = json.loads(render(summary, "json"))["gradient"]
    partial = [row for row in rows if not row["complete"]]
    assert [(row["baseline"], row["seeds_finished"], row["seeds"]) for row in partial] == [
        ("subloo", 1, 2)
    ] * 2
    for row in partial:
        assert row["variance"] is row["variance_low"] is row["bias_p_holm"] is None
        assert row["undefined"]["variance"] == "incomplete: 1 of 2 seeds finished"
    in_csv = [
        row
        for row in csv.DictReader(io.StringIO(render(summary, "csv")))
        if row["complete"] == "False"
    ]
    assert {row["variance"] for row in in_csv} == {""}


def test_the_terminal_is_plain_and_fits(summary):
    text = render(summary, "terminal")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b[" in render(summary, "terminal", colour=True)
    lines = [one for one in text.splitlines() if re.match("subloo +8 +1/2", one)]
    assert any(set(line.split()[3:]) == {"—"} for line in lines)


def test_latex_is_escaped_and_balanced(summary):
    text = render(summary, "latex")
    assert r"my\_sweep" not in text.splitlines()[0]
    assert r"group\_mean" in text
    assert r"100\% best" in text
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") > 4
    for table in text.split(r"\begin{longtable}{")[1:]:
        columns = len(table.partition("}")[0])
        rows = table.partition(r"\end{longtable}")[0].splitlines()
        lines = [line for line in rows if line.startswith("{}")]
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {columns}
    assert (
        escape("a_b & 5% {x} ~^\\")
        == r"a\_b \& 5\% \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_every_letter_of_the_measures_is_known_to_latex():
    """Beyond Latin and its accents, a letter that is not escaped stops LaTeX."""
    for text in (*(row.meaning for row in MEASURES), "√(mean ‖ψ‖²) τ"):
        assert max(escape(text)) <= "ÿ", escape(text)
    assert escape("Var ρ̂ of ρ") == r"Var $\hat\rho$ of $\rho$"


def test_a_letter_that_latex_may_not_know_is_spelled():
    assert escape("8–16 of ⅓, é") == "8--16 of 1/3, é"
    assert escape("σ₂⁴ → Ω") == r"$\sigma$$_{2}$$^{4}$ $\to$ $\Omega$"
    assert escape("a ☃, n̂") == "a [U+2603], n[U+0302]"


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.34, "12.3"), (1.0, "1.00"), (123.4, "123"), (1234.5, "1234"), (0.00012, "1.20e-04"),
     (0.0, "0.00"),
     (999.7, "1000"), (2.5e7, "2.50e+07"), (float("nan"), "—"), (float("inf"), "∞")],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_a_value_without_an_interval_is_not_printed():
    assert compact(Interval(3.0, float("nan"), float("nan"), 0.95, "one unit")) == "—"
    assert compact(Interval(3.0, 2.0, float("inf"), 0.95)) == "3.00 [2.00, ∞]"


def test_formats_that_do_not_exist(summary):
    with pytest.raises(LabError, match=r"unknown format 'pdf'; known: terminal, markdown, html"):
        render(summary, "pdf")
    with pytest.raises(LabError, match=r"unknown format 'markdwon' \(did you mean markdown\?\)"):
        render(summary, "markdwon")


def test_a_run_without_any_record(lab):
    empty = summarise_records(lab.cells(), [], name="empty")
    for format in FORMATS:
        assert "none" in render(empty, format)


def test_a_caption_that_changes_is_said_in_full():
    captions = [("one", "two"), ("one", "other"), ("two",)]
    tables = [Block(caption=caption) for caption in captions]
    assert [table.caption for table in with_captions(tables)] == [
        ("one", "two"),
        ("other", SAME),
        ("two",),
    ]


def test_names_are_not_broken_in_the_terminal(lab):
    cells = lab.cells(baselines=("affine[cross_fit]", "affine[oracle]"), ns=(8,), ks=(2,))
    found = summarise_records(cells, [lab.record(cell, noise=2.0) for cell in cells], name="names")
    lines = render(found, "terminal").splitlines()
    assert sum(line.startswith("affine[oracle] ") for line in lines) > 2
    assert max(map(len, lines)) <= 100


def test_a_name_breaks_after_a_slash_or_between_words_where_room_is_short():
    names = ("training/learning_rate=0.0005/maxk/subloo", "POMO (start=multistart)")
    columns = [Column(heading, str) for heading in ("row", "method")]
    columns += [Column("value", str, numeric=True)] * 3
    row = (*names, *["0.1 [-0.123, 0.123]"] * 3)
    block = Block(columns=tuple(columns), rows=(row,))
    lines = terminal(SimpleNamespace(title="", blocks=[block], width=80, colour=False)).splitlines()
    assert max(map(len, lines)) <= 80
    parts = {"training/", "learning_rate=0.0005/", "maxk/subloo", "POMO", "(start=multistart)"}
    assert parts < {part for line in lines for part in line.split()}


def test_headings_of_numbers_stay_whole_beside_long_names():
    headings = ("lowest", "above", "median", "smallest", "largest")
    columns = [Column("method", str), Column("bias", str)]
    columns += [Column(heading, str, numeric=True) for heading in headings]
    row = ("cvar_upper[0.25] centred", "not rejected in 15 of 21", *["1.00"] * len(headings))
    block = Block(columns=tuple(columns), rows=(row,))
    lines = terminal(SimpleNamespace(title="", blocks=[block], width=80, colour=False)).splitlines()
    assert max(map(len, lines)) <= 80
    assert {*headings, "cvar_upper[0.25]"} < {part for line in lines for part in line.split()}
