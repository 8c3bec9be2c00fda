"""A part of a report: some rows, or chosen columns, in every format."""

from __future__ import annotations

import csv
import io
import json

import pytest
from sweep_files import plan_of

from maxk_lab.errors import LabError
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.reports.selection import part_of, selected_cells
from maxk_lab.reports.write import write_report

SWEEP = """\
name: both
seeds: [0, 1]
environment: {name: tsp, num_loc: 20}
gradient:
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred, group_mean], n: [8, 16], k: [2, 4]}
"""


@pytest.fixture
def plan(write):
    return plan_of(write(SWEEP))


@pytest.fixture
def report(lab, plan):
    cells = [cell.as_dict() for cell in plan.cells]
    return make_report(cells, map(lab.record, cells), name="both")


def lines(report):
    return list(csv.DictReader(io.StringIO(rendered(report, "csv"))))


def test_without_a_selection_the_report_is_unchanged(report, plan):
    assert part_of(report, plan) is report
    assert "Shown:" not in rendered(report, "markdown")
    assert "selection" not in json.loads(rendered(report, "json"))


def test_only_the_selected_rows_are_in_every_format(report, plan):
    part = part_of(report, plan, where="k=4,baseline=centred")
    chosen = lines(part)
    assert {(line["baseline"], line["k"]) for line in chosen} == {("centred", "4")}
    # Neither a verdict nor an interval is computed again.
    every = {line["row"]: line for line in lines(report)}
    assert [{name: every[line["row"]][name] for name in line} for line in chosen] == chosen
    for format in ("terminal", "markdown"):
        text = rendered(part, format)
        assert "Shown: 2 of 12 rows, where k=4,baseline=centred." in " ".join(text.split())
        assert "those of the whole run" in " ".join(text.split())
        assert "group_mean" not in text
    content = json.loads(rendered(part, "json"))
    assert content["selection"].startswith("Shown: 2 of 12 rows")
    assert {line["k"] for line in content["estimates"]} == {4}
    assert {line["row"] for line in content["comparisons"]} == {line["row"] for line in chosen}


def test_chosen_columns_are_one_table_with_intervals_and_k(report, plan):
    part = part_of(report, plan, columns="baseline,n,variance")
    ends = ["variance_low", "variance_high", "variance_about"]
    assert list(lines(part)[0]) == ["baseline", "n", "variance", *ends]
    text = rendered(part, "markdown")
    assert text.count("## ") == 1
    assert "| baseline | n | K | variance |" in text
    line = lines(part)[0]
    assert f"[{float(line['variance_low']):#.3g}, " in text
    assert "Claims" not in text.replace("Claims, verdicts", "")
    without_n = rendered(part_of(report, plan, columns=["baseline", "variance"]), "markdown")
    assert "the rows differ in n, too." in without_n


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"columns": "n,varance"}, r"--columns: .*'varance' \(did you mean variance\?\)"),
        ({"columns": "n,,k"}, r"--columns: .* no column ''"),
        ({"columns": ""}, r"--columns: .* no column ''"),
        ({"where": "baselin=x"}, r"--where: unknown axis 'baselin' \(did you mean baseline\?\)"),
        ({"where": "n=3"}, "--where: no cell has n = 3; the sweep has 8, 16"),
        ({"where": "n"}, "--where: must read axis=value"),
        ({"where": "n=8,seed=1"}, "a row of a report has all its seeds"),
    ],
)
def test_an_unknown_column_or_row_is_refused(report, plan, asked, message):
    with pytest.raises(LabError, match=message):
        part_of(report, plan, **asked)


def test_a_part_is_written_without_figures(report, plan, tmp_path):
    written = write_report(part_of(report, plan, where="n=8"), tmp_path, ["markdown"])
    assert written == [tmp_path / "report.md"]
    assert "Without figures, which are of the whole run." in (tmp_path / "report.md").read_text()


def test_cells_are_selected_in_the_language_of_only(plan):
    assert selected_cells(plan, None) is None
    assert selected_cells(plan, "n=8,baseline=centred") == {
        cell.id for cell in plan.cells if (cell.n, cell.baseline) == (8, "centred")
    }
