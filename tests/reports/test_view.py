"""Views of a report: which rows, in which order, of which columns, in every format."""

from __future__ import annotations

import csv
import io
import json

import pytest
from sweep_files import plan_of

from maxk_lab.errors import LabError
from maxk_lab.reports.formats.render import FORMATS, render
from maxk_lab.reports.report import Report
from maxk_lab.reports.summarise import summarise_records
from maxk_lab.reports.view import View, asked_view
from maxk_lab.reports.write import write_report

COLUMNS = ("baseline", "n", "k", "variance", "max@8")


@pytest.fixture(scope="module")
def cells(lab):
    """A gradient study of 3 baselines at 4 sizes, and a training study."""
    return [*lab.cells(baselines=("none", "centred", "subloo")), *lab.training_cells()]


@pytest.fixture(scope="module")
def summary(lab, cells):
    make = {"gradient": lab.record, "training": lab.training_record}
    return summarise_records(cells, [make[cell["study"]](cell) for cell in cells], name="both")


def of(cells, **axes):
    """The ids of the cells with these values, as `--where` selects them."""
    return frozenset(
        cell["id"] for cell in cells if all(cell[axis] == value for axis, value in axes.items())
    )


def lines(summary, view):
    return list(csv.DictReader(io.StringIO(render(summary, "csv", view=view))))


def test_without_a_wish_everything_is_as_it_was(summary):
    sections = Report(summary).sections
    assert View().of(sections) == sections
    assert "Shown:" not in render(summary, "markdown")
    assert "view" not in json.loads(render(summary, "json"))


def test_the_rows_of_the_cells_alone_in_every_format(summary, cells):
    view = View(where="k=4,baseline=centred", cells=of(cells, k=4, baseline="centred"))
    found = lines(summary, view)
    assert {(one["baseline"], one["k"]) for one in found} == {("centred", "4")}
    whole = {one["cells"]: one for one in lines(summary, View())}
    # Nothing is computed anew: neither a verdict nor an interval.
    assert [{name: whole[one["cells"]][name] for name in one} for one in found] == found
    for format in ("terminal", "markdown", "latex"):
        text = render(summary, format, width=300, view=view)
        assert "Shown: 2 of 15 rows, where k=4,baseline=centred." in text
        assert "are those of the whole run" in text
        assert "affine" not in text
    told = json.loads(render(summary, "json", view=view))
    assert told["view"] == {"where": "k=4,baseline=centred", "sort": None, "columns": None}
    assert {row["k"] for row in told["gradient"]} == {4}


@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_sorted_and_those_without_a_value_come_last(lab, descending):
    cells = lab.cells(baselines=("none", "centred"), ks=(2,), seeds=(0,))
    lost = cells[0]["id"]
    records = [lab.record(cell) for cell in cells if cell["id"] != lost]
    summary = summarise_records(cells, records, name="it")
    found = lines(summary, View(sort="variance", descending=descending))
    assert found[-1]["cells"] == lost
    values = [float(one["variance"]) for one in found[:-1]]
    assert values == sorted(values, reverse=descending)
    assert len(set(values)) == 3
    text = render(summary, "markdown", view=View(sort="variance", descending=descending))
    table = text[text.index("## Variance") :].splitlines()[4:8]
    assert [line.split(" | ")[1] for line in table] == [one["n"] for one in found]


def test_columns_bring_their_interval_and_one_table_a_study(summary):
    view = View(columns=COLUMNS)
    found = lines(summary, view)
    ends = ["variance_low", "variance_high", "variance_about"]
    assert list(found[0]) == [
        "section", "baseline", "n", "k", "variance", *ends, "max@8", "max@8_low", "max@8_high",
        "max@8_about",
    ]  # fmt: skip
    text = render(summary, "markdown", view=view)
    assert text.count("## ") == 2
    assert "| baseline | n | k | variance |" in text
    assert "| baseline | n | k | max@8 |" in text
    row = found[0]
    assert f"[{float(row['variance_low']):#.3g}, " in text
    assert "These rows differ in estimator, too" in text
    assert {one["section"] for one in lines(summary, View(columns=("n", "variance")))} == {
        "gradient"
    }
    assert set(json.loads(render(summary, "json", view=view))["training"][0]) == {
        "baseline", "n", "k", "max@8", "max@8_low", "max@8_high", "max@8_about",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("view", "option"),
    [(View(sort="varance"), "--sort"), (View(columns=("n", "varance")), "--columns")],
)
def test_a_view_is_written_without_figures_and_one_of_unknown_columns_is_not(
    summary, tmp_path, view, option
):
    for format in FORMATS:
        with pytest.raises(LabError, match=rf"{option}: .*'varance' \(did you mean variance\?\)"):
            render(summary, format, view=view)
    with pytest.raises(LabError):
        write_report(summary, tmp_path / "out", view=view)
    assert not (tmp_path / "out").exists()
    written = write_report(summary, tmp_path, view=View(sort="baseline"))
    assert {path.parent for path in written} == {tmp_path}
    assert "Without figures, which are of the whole run." in (tmp_path / "report.md").read_text()


def test_what_is_asked_for_is_read_in_the_language_of_only(small):
    plan = plan_of(small)
    view = asked_view(plan, where="n=8,baseline=centred", sort="-variance", columns="n, variance,n")
    assert view.cells == {
        cell.id for cell in plan.cells if (cell.n, cell.baseline) == (8, "centred")
    }
    assert (view.sort, view.descending, view.columns) == ("variance", True, ("n", "variance"))
    assert asked_view(plan).whole


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"where": "baselin=x"}, r"--where: unknown axis 'baselin' \(did you mean baseline\?\)"),
        ({"where": "n=3"}, "--where: no cell has n = 3; the sweep has 4, 8"),
        ({"where": "n"}, "--where: must read axis=value"),
        ({"where": "n=4,seed=1"}, "all its seeds together"),
        ({"columns": "n,,k"}, "--columns must name columns"),
        ({"columns": ""}, "--columns must name columns"),
        ({"sort": "-"}, "--sort must name"),
    ],
)
def test_what_cannot_be_read_is_refused(small, asked, message):
    with pytest.raises(LabError, match=message):
        asked_view(plan_of(small), **asked)


def test_a_table_keeps_its_rules_between_the_rows_that_stay(lab):
    cells = lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2, 4), seeds=(0,))
    summary = summarise_records(cells, map(lab.record, cells), name="it")

    def breaks(view):
        blocks = [block for part in Report(summary, view=view).sections for block in part.blocks]
        return next(block.breaks for block in blocks if "Variance: " in block.title)

    assert breaks(View()) == (2, 4, 6)
    assert breaks(View(where="n=8", cells=of(cells, n=8))) == (2,)
    assert breaks(View(sort="variance")) == ()
