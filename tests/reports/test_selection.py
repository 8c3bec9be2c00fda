"""A report as a folder of files, and a part of a report: some rows or columns, in every format."""

import csv
import io
import json

import pytest

from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import read_report
from maxk_lab.reports.selection import part_of
from maxk_lab.reports.write import write_report
from maxk_lab.sweep_file.load import load_spec

SWEEP = """
name: both
seeds: [0, 1]
environment: {name: tsp, num_loc: 20}
gradient:
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred, group_mean], n: [8, 16], k: [2, 4]}
claims:
  - {name: shrinks, kind: equals, metric: scale, where: {baseline: group_mean}, value: 1 - k/n,
     tolerance: 0.05}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "sweep.yaml"
    path.write_text(SWEEP)
    return make_plan(load_spec(path))


@pytest.fixture(scope="module")
def report(lab, plan, tmp_path_factory):
    """The report of a finished run on disk."""
    run = RunDirectory(tmp_path_factory.mktemp("run") / "both")
    run.write_spec(plan.spec)
    for cell in plan.cells:
        run.write(lab.record(cell.as_dict()))
    return read_report(run)


def lines(report):
    return list(csv.DictReader(io.StringIO(rendered(report, "csv"))))


def test_a_folder_has_a_file_of_each_format_and_every_figure(report, tmp_path):
    paths = write_report(report, tmp_path, failed=pytest.fail)
    pictures = [
        f"figures/{name}.{kind}" for name in ("variance", "snr") for kind in ("png", "svg", "pdf")
    ]
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        *("report.md", "report.html", "table.csv", "report.json", "table.tex"),
        *pictures,
    ]
    assert all(path.stat().st_size > 300 for path in paths)
    text = (tmp_path / "report.md").read_text()
    assert all(f"]({name})" in text for name in pictures if name.endswith("png"))
    assert json.loads((tmp_path / "report.json").read_text())["claims"][0]["verdict"] == "supported"
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(paths)


def test_only_the_selected_rows_are_in_every_format(report, plan, tmp_path):
    assert part_of(report, plan) is report
    assert "selection" not in json.loads(rendered(report, "json"))
    assert "Shown:" not in rendered(report, "markdown")
    part = part_of(report, plan, where="k=4,baseline=centred")
    chosen = lines(part)
    assert {(line["baseline"], line["k"]) for line in chosen} == {("centred", "4")}
    # Neither a verdict nor an interval is computed again.
    every = {line["row"]: line for line in lines(report)}
    assert [{name: every[line["row"]][name] for name in line} for line in chosen] == chosen
    assert write_report(part, tmp_path, ["markdown"]) == [tmp_path / "report.md"]
    written = (tmp_path / "report.md").read_text()
    assert "Without figures, which are of the whole run." in written
    for text in (rendered(part, "terminal"), written):
        assert "Shown: 2 of 12 rows, where k=4,baseline=centred." in " ".join(text.split())
        assert "those of the whole run" in " ".join(text.split())
        assert "| group_mean" not in text.replace("\\", "")
    content = json.loads(rendered(part, "json"))
    assert content["selection"].startswith("Shown: 2 of 12 rows")
    assert {line["k"] for line in content["estimates"]} == {4}
    assert {line["row"] for line in content["comparisons"]} == {line["row"] for line in chosen}


def test_chosen_columns_are_one_table_with_intervals_and_k(report, plan):
    part = part_of(report, plan, columns="baseline,n,variance")
    line = lines(part)[0]
    ends = ["variance_low", "variance_high", "variance_about"]
    assert list(line) == ["baseline", "n", "variance", *ends]
    text = rendered(part, "markdown")
    assert text.count("## ") == 1
    assert "| baseline | n | K | variance |" in text
    assert f"[{float(line['variance_low']):#.3g}, " in text
    without_n = rendered(part_of(report, plan, columns=["baseline", "variance"]), "markdown")
    assert "the rows differ in n, too." in without_n


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"columns": "n,,k"}, r"--columns: .* no column ''"),
        ({"where": "baselin=x"}, r"--where: unknown axis 'baselin' \(did you mean baseline\?\)"),
        ({"where": "n=3"}, "--where: no cell has n = 3; the sweep has 8, 16"),
        ({"where": "n"}, "--where: must read axis=value"),
        ({"where": "n=8,seed=1"}, "a row of a report has all its seeds"),
    ],
)
def test_an_unknown_column_or_row_is_refused(report, plan, wrong, message):
    with pytest.raises(LabError, match=message):
        part_of(report, plan, **wrong)


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("terminal", "format terminal is not written to a file; choose from markdown, html"),
        ("pdf", "unknown format 'pdf'; known: terminal, markdown, html"),
    ],
)
def test_a_format_without_a_file_is_refused_and_writes_nothing(report, tmp_path, format, message):
    with pytest.raises(LabError, match=message):
        write_report(report, tmp_path, ["csv", format])
    assert list(tmp_path.iterdir()) == []
