"""Every format says the same numbers and their basis, and prints none without an interval."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from maxk_lab.errors import LabError
from maxk_lab.reports.document import SAME, Block, Column, compact, number, with_captions
from maxk_lab.reports.formats.latex import escape
from maxk_lab.reports.formats.render import FORMATS, rendered
from maxk_lab.reports.formats.terminal import printed
from maxk_lab.reports.report import make_report
from maxk_lab.reports.tables import CELLS, CLAIM, COMPARISON, NUMBER, ROWS, Tables, wide
from maxk_lab.statistics.intervals import Interval


@pytest.fixture(scope="module")
def report(lab):
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
    return make_report(cells, records, name="my_sweep", description="Which is 100% best?")


def test_every_column_is_documented_and_has_the_same_name_in_every_reader(report):
    words = re.findall(r"^ +\| ([a-z_, .]+?) \|", Tables.__doc__, re.MULTILINE)
    documented = {name.strip() for line in words for name in line.split(",")}
    assert {*ROWS, *NUMBER, *COMPARISON, *CLAIM} <= documented
    assert {*CELLS} <= documented | {"seed", "cell"}
    estimates, comparisons, claims = report.tables
    assert [*estimates.columns[-len(NUMBER) :]] == [*NUMBER]
    assert [*comparisons.columns] == ["study", *COMPARISON]
    assert [*claims.columns] == [*CLAIM]
    in_json = json.loads(rendered(report, "json"))
    assert [*in_json["estimates"][0]] == [*estimates.columns]
    assert [*in_json["comparisons"][0]] == [*comparisons.columns]
    in_csv = csv.DictReader(io.StringIO(rendered(report, "csv")))
    assert [*in_csv.fieldnames] == [*wide(report.tables).columns]
    assert {*estimates.columns} - {*NUMBER} <= {*in_csv.fieldnames}


@pytest.mark.slow
def test_every_format_has_the_same_numbers(report):
    row = next(
        row
        for row in report.studies["gradient"].rows
        if row.key.baseline == "centred" and row.key.stage == 200
    )
    variance = row.intervals["variance"]
    for format, options in (("terminal", {"width": 200, "full": True}), ("markdown", {})):
        assert compact(variance) in rendered(report, format, **options)
    place = {"study": "gradient", "row": row.key.path}
    (in_json,) = (
        line
        for line in json.loads(rendered(report, "json"))["estimates"]
        if (place | {"measure": "variance"}).items() <= line.items()
    )
    (in_csv,) = (
        line
        for line in csv.DictReader(io.StringIO(rendered(report, "csv")))
        if place.items() <= line.items()
    )
    for column, ending in (("value", ""), ("low", "_low"), ("high", "_high")):
        value = getattr(variance, column)
        assert in_json[column] == float(in_csv[f"variance{ending}"]) == value


def test_the_verdicts_of_rows_are_those_of_the_comparisons(report):
    table = wide(report.tables)
    best = report.tables.comparisons.query("family == 'best'").set_index("row").verdict
    verdicts = table.dropna(subset="verdict").set_index("row").verdict
    assert verdicts.to_dict() == best.to_dict()
    assert {"lowest", "worse"} & {*verdicts}
    tests = report.tables.comparisons.query("family == 'bias'").set_index("row")
    assert table.set_index("row").bias_test.to_dict() == tests.verdict.to_dict()
    assert {*table.bias} == {"unbiased (proved)", "biased"}


def test_undefined_is_null_with_its_reason(report):
    lines = json.loads(rendered(report, "json"))["estimates"]
    partial = [line for line in lines if line["status"] == "incomplete"]
    assert [(line["baseline"], line["seeds_finished"], line["seeds"]) for line in partial] == [
        ("subloo", 1, 2)
    ] * 2
    for line in partial:
        assert line["value"] is line["low"] is line["measure"] is None
        assert line["reason"] == "incomplete: 1 of 2 seeds finished"
    in_csv = [
        line
        for line in csv.DictReader(io.StringIO(rendered(report, "csv")))
        if line["status"] == "incomplete"
    ]
    assert {line["variance"] for line in in_csv} == {""}


def test_the_terminal_is_plain_and_fits(report):
    text = rendered(report, "terminal", full=True)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b[" in rendered(report, "terminal", colour=True)
    lines = [line for line in text.splitlines() if re.match("subloo +8 +1/2", line)]
    assert lines
    assert "incomplete: 1 of 2 seeds finished: all numbers of stage0/maxk/subloo" in text


def test_latex_is_one_booktabs_table_of_the_chosen_columns_and_k(lab):
    cells = lab.cells(baselines=("none", "group_mean"), ns=(8,), ks=(2, 4))
    report = make_report(cells, map(lab.record, cells), name="it", description="Which?")
    text = rendered(replace(report, columns=("baseline", "variance")), "latex")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    rows = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines() if "&" in line]
    assert rows[0] == ["baseline", "K", "variance"]
    assert [row[:2] for row in rows[1:]] == [
        ["none", "2"], [r"group\_mean", "2"], ["none", "4"], [r"group\_mean", "4"],
    ]  # fmt: skip
    variances = [row.intervals["variance"] for row in report.studies["gradient"].rows]
    assert {row[2] for row in rows[1:]} == set(map(compact, variances))
    (caption,) = re.findall(r"\\caption{(.*)}", text)
    assert caption == r"TSP with 20 cities; 95\% confidence intervals in brackets."
    assert "Which" not in text
    alone = replace(report, columns=("n", "snr"), tables=report.tables._replace(
        estimates=report.tables.estimates.query("k == 4")))  # fmt: skip
    assert "TSP with 20 cities, K = 4; 95" in rendered(alone, "latex")


def test_latex_without_columns_is_the_short_table(report):
    text = rendered(report, "latex")
    assert text.count(r"\begin{tabular}") == 1
    assert r"group\_mean" in text
    assert r"; 95\% confidence intervals in brackets.}" in text


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX")
def test_latex_compiles_without_overfull_boxes(report, tmp_path):
    columns = ("baseline", "n", "variance", "snr", "relative_variance", "scale", "cosine")
    tables = rendered(replace(report, columns=columns), "latex") + rendered(report, "latex")
    packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx}"
    (tmp_path / "it.tex").write_text(
        rf"\documentclass{{article}}{packages}\begin{{document}}{tables}\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "it.tex"]
    log = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "Overfull" not in log
    assert "Missing character" not in log


def test_latex_is_escaped_and_spells_unknown_letters():
    assert (
        escape("a_b & 5% {x} ~^\\")
        == r"a\_b \& 5\% \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    assert escape("8–16 †, é, ∞ ☃") == r"8–16 $\dagger$, é, $\infty$ [U+2603]"
    assert escape("Δ -0.5 [-2e-03, 1]") == r"$\Delta$ $-$0.5 [$-$2e-03, 1]"


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
    assert compact(Interval(-2e-17, -0.5, 0.5, 0.95)) == "0.00 [-0.500, 0.500]"
    infinite = Interval(float("inf"), float("inf"), float("inf"), 0.95)
    assert compact(infinite) == "∞ [∞, ∞]"


def test_formats_that_do_not_exist(report):
    with pytest.raises(LabError, match=r"unknown format 'pdf'; known: terminal, markdown, html"):
        rendered(report, "pdf")
    with pytest.raises(LabError, match=r"unknown format 'markdwon' \(did you mean markdown\?\)"):
        rendered(report, "markdwon")


def test_a_run_without_any_record(lab):
    empty = make_report(lab.cells(), [], name="empty")
    for format in FORMATS:
        assert ("none" in rendered(empty, format)) == (format != "latex")


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
    report = make_report(cells, [lab.record(cell, noise=2.0) for cell in cells], name="names")
    lines = rendered(report, "terminal", full=True).splitlines()
    assert sum(line.startswith("affine[oracle] ") for line in lines) > 2
    assert max(map(len, lines)) <= 100


def test_a_table_of_long_names_fits_and_keeps_its_numbers_whole():
    names = ("training/learning_rate=0.0005/maxk/subloo", "POMO (start=multistart)")
    columns = [Column("row"), Column("method"), *[Column("value", numeric=True)] * 3]
    row = (*names, *["0.1 [-0.123, 0.123]"] * 3)
    lines = printed("", [Block(columns=tuple(columns), rows=(row,))], width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("[-0.123, 0.123]") for line in lines) == 3
    letters = sorted("".join("".join(lines[3:]).split()))
    assert letters == sorted("".join(" ".join(row).split()))


def test_headings_of_numbers_stay_whole_beside_long_names():
    headings = ("lowest", "tied", "ratio", "smallest", "largest")
    columns = [Column("method"), Column("bias")]
    columns += [Column(heading, numeric=True) for heading in headings]
    row = ("cvar_upper[0.25] centred", "not rejected in 15 of 21", *["1.00"] * len(headings))
    lines = printed("", [Block(columns=tuple(columns), rows=(row,))], width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert {*headings} < {part for line in lines for part in line.split()}
