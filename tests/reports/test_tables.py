"""Every format has the same numbers and names, and prints no number without an interval."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from maxk_lab.reports.document import SAME, Block, Column, compact, number, with_captions
from maxk_lab.reports.formats.data import csv_of_lines
from maxk_lab.reports.formats.render import FORMATS, rendered
from maxk_lab.reports.formats.terminal import printed
from maxk_lab.reports.report import make_report
from maxk_lab.reports.tables import CELLS, CLAIM, COMPARISON, NUMBER, ROWS, Tables, wide
from maxk_lab.statistics.intervals import Interval


@pytest.fixture(scope="module")
def report(lab):
    """Two stages; of `subloo` at stage 0 a cell failed and a cell is missing."""
    baselines = ("none", "centred", "group_mean", "subloo")
    cells = lab.cells(baselines=baselines, ns=(8, 16), ks=(2,), stages=(0, 200))
    records = {
        cell["id"]: lab.record(cell, "failed" if cell["id"] == "0-subloo-8-2-1" else "done")
        for cell in cells
    }
    del records["0-subloo-16-2-1"]
    return make_report(cells, records.values(), name="my_sweep", description="Which is 100% best?")


def csv_lines(report):
    return list(csv.DictReader(io.StringIO(rendered(report, "csv"))))


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
    names = [*csv_lines(report)[0]]
    assert names == [*wide(report.tables).columns]
    assert {*estimates.columns} - {*NUMBER} <= {*names}


def test_the_verdicts_of_rows_are_those_of_the_comparisons(report):
    table = wide(report.tables)
    best = report.tables.comparisons.query("family == 'best'").set_index("row").verdict
    verdicts = table.dropna(subset="verdict").set_index("row").verdict
    assert verdicts.to_dict() == best.to_dict()
    assert {"lowest", "worse"} & {*verdicts}
    tests = report.tables.comparisons.query("family == 'bias'").set_index("row")
    assert table.set_index("row").bias_test.to_dict() == tests.verdict.to_dict()
    assert {*table.bias} == {"unbiased (proved)", "biased"}


def test_an_undefined_number_is_empty_with_its_reason(report):
    reason = "incomplete: 1 of 2 seeds finished"
    partial = [
        line
        for line in json.loads(rendered(report, "json"))["estimates"]
        if line["status"] == "incomplete"
    ]
    assert [(line["baseline"], line["n"], line["seeds_finished"]) for line in partial] == [
        ("subloo", 8, 1),
        ("subloo", 16, 1),
    ]
    for line in partial:
        assert line["value"] is line["low"] is line["measure"] is None
        assert line["reason"] == reason
    in_csv = [line for line in csv_lines(report) if line["status"] == "incomplete"]
    assert {line["variance"] for line in in_csv} == {""}
    assert f"{reason}: all numbers of stage0/maxk/subloo" in rendered(report, "terminal", full=True)
    lines = [{"a": 1, "b": 0.1}, {"b": math.nan, "c": 'say "a, b"', "d": None}]
    assert csv_of_lines(lines) == 'a,b,c,d\n1,0.1,,\n,,"say ""a, b""",\n'


def test_the_terminal_is_plain_and_fits(report, lab):
    text = rendered(report, "terminal", full=True)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert re.search("^subloo +8 +1/2", text, re.MULTILINE)
    assert "\x1b[" in rendered(report, "terminal", colour=True)
    cells = lab.cells(baselines=("affine[cross_fit]", "affine[oracle]"), ns=(8,), ks=(2,))
    named = make_report(cells, [lab.record(cell, noise=2.0) for cell in cells], name="names")
    lines = rendered(named, "terminal", full=True).splitlines()
    assert sum(line.startswith("affine[oracle] ") for line in lines) > 2
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("headings", "names", "numbers"),
    [
        (
            ("row", "method"),
            ("training/learning_rate=0.0005/maxk/subloo", "POMO (start=multistart)"),
            dict.fromkeys(("value", "ratio", "scale"), "0.1 [-0.123, 0.123]"),
        ),
        (
            ("method", "bias"),
            ("cvar_upper[0.25] centred", "not rejected in 15 of 21"),
            dict.fromkeys(("lowest", "tied", "ratio", "smallest", "largest"), "1.00"),
        ),
    ],
)
def test_a_table_of_long_names_fits_and_breaks_no_number(headings, names, numbers):
    columns = (*map(Column, headings), *(Column(name, numeric=True) for name in numbers))
    table = Block(columns=columns, rows=((*names, *numbers.values()),))
    text = printed("", [table], width=80)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert {*numbers} <= {*text.split()}
    assert all(text.count(f"{each.split()[-1]}") >= len(numbers) for each in numbers.values())
    letters = "".join(["".join(headings), *numbers, *names, *numbers.values()])
    assert sorted(re.sub("[ \n─━]", "", text)) == sorted(letters.replace(" ", ""))


def test_latex_is_one_booktabs_table_of_the_chosen_columns_and_k(report, lab):
    short = rendered(report, "latex")
    assert short.count(r"\begin{tabular}") == 1
    assert r"group\_mean" in short
    assert r"; 95\% confidence intervals in brackets.}" in short
    cells = lab.cells(baselines=("none", "group_mean"), ns=(8,), ks=(2, 4))
    report = make_report(cells, map(lab.record, cells), name="it", description="Which?")
    # The short table of a part is about the whole run.
    assert "; all rows of the run." in rendered(replace(report, selection="Shown: 1 row."), "latex")
    assert "all rows" not in short
    text = rendered(replace(report, columns=("baseline", "variance")), "latex")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    rows = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines() if "&" in line]
    assert rows[0] == ["baseline", "K", "variance"]
    methods = [["none", "2"], [r"group\_mean", "2"], ["none", "4"], [r"group\_mean", "4"]]
    assert [row[:2] for row in rows[1:]] == methods
    variances = [row.intervals["variance"] for row in report.studies["gradient"].rows]
    assert {row[2] for row in rows[1:]} == set(map(compact, variances))
    (caption,) = re.findall(r"\\caption{(.*)}", text)
    assert caption == r"TSP with 20 cities; 95\% confidence intervals in brackets."
    assert "Which" not in text
    tables = report.tables._replace(estimates=report.tables.estimates.query("k == 4"))
    single = replace(report, columns=("n", "snr"), tables=tables)
    assert "TSP with 20 cities, K = 4; 95" in rendered(single, "latex")
    exact = lab.weights_cells()
    exact = make_report(exact, [lab.done(cell, lab.weighed()) for cell in exact], name="it")
    for columns in ((), ("baseline", "zero_share")):
        assert "in brackets" not in rendered(replace(exact, columns=columns), "latex")


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


def test_numbers_have_three_digits_and_are_printed_with_their_interval():
    numbers = {12.34: "12.3", 1.0: "1.00", 1234.5: "1234", 0.00012: "1.20e-04", 0.0: "0.00"}
    numbers |= {999.7: "1000", 2.5e7: "2.50e+07", math.nan: "—", math.inf: "∞"}
    assert {value: number(value) for value in numbers} == numbers
    infinite = (math.inf,) * 3
    for ends, text in {
        (3.0, math.nan, math.nan): "—",
        (3.0, 2.0, math.inf): "3.00 [2.00, ∞]",
        # The rounding error of 0.
        (-2e-17, -0.5, 0.5): "0.00 [-0.500, 0.500]",
        infinite: "∞ [∞, ∞]",
    }.items():
        assert compact(Interval(*ends, 0.95)) == text


def test_a_run_without_any_record_has_its_rows_in_every_format_but_latex(lab):
    empty = make_report(lab.cells(), [], name="empty")
    for format in FORMATS:
        assert ("none" in rendered(empty, format)) == (format != "latex")


def test_a_varied_key_that_has_the_name_of_a_number_keeps_its_whole_name(lab):
    cells = lab.vary(lab.cells(baselines=("none",), ns=(8,), ks=(2,)), "policy.scale", [0.1, 0.2])
    text = rendered(make_report(cells, map(lab.record, cells), name="it"), "markdown")
    heads = re.findall(r"^\| (\S*scale) .*\|$", text, re.MULTILINE)
    assert heads == ["policy.scale", "scale"]  # of the tables of bias and of variance


def test_a_caption_leaves_out_lines_of_the_caption_before():
    captions = [("one", "two"), ("one", "other"), ("two",)]
    tables = [Block(caption=caption) for caption in captions]
    assert [table.caption for table in with_captions(tables)] == [
        ("one", "two"),
        ("other", SAME),
        ("two",),
    ]
