"""The short table of a training study: few rows, few K, and words for what its intervals are."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from maxk_lab.studies.training.section.answer.place import places_of
from maxk_lab.studies.training.section.short import short_table

from maxk_lab.ranges import SHARES, Range
from maxk_lab.report.model import Header, Summary


@pytest.fixture(scope="module")
def sheet(study):
    """The table of the whole study."""
    return table(study)


def table(summary, **changed):
    """The table of a summary's trainings."""
    rows = summary.studies["training"].rows
    asked = Summary(header=Header("", "", (), (), (), {}), studies={}, **changed)
    (found,) = short_table(places_of(rows, 0.95), asked)
    return found


def lines(sheet):
    """Its rows as they are read."""
    return [[column.text(row) for column in sheet.columns] for row in sheet.rows]


def test_it_has_the_mean_the_largest_k_trained_for_and_all_samples(sheet, study):
    assert sheet.title == "In short: TSP with 20 cities"
    assert [column.heading for column in sheet.columns] == [
        "method",
        "Δ mean (Max@1)",
        "Δ Max@8",
        "Δ Max@64",
        "better at K =",
        "worse at K =",
        "gap in %, best of 64",
    ]
    found = {line[0]: line[1:] for line in lines(sheet)}
    assert len(found) == len(study.studies["training"].rows) == 12
    assert found["POMO's loss (the reference)"][:5] == ["—"] * 5
    assert found["POMO's loss (the reference)"][5].startswith("2.45 [")


def test_its_words_tell_its_intervals_from_those_of_claims(sheet, study):
    said = " ".join(sheet.caption)
    assert "Intervals: 95%, each of one difference alone." in said
    assert "Better, worse: told of K = 1, 4, 8, 64 at a level of 5% for all 44 such" in said
    assert "A claim" not in said
    assert "subloo (each subset's gap between best and second best" in said
    assert "POMO's loss (reinforce with group_mean)" in said
    claimed = " ".join(table(study, claims=(SimpleNamespace(),)).caption)
    assert "A claim, which the sweep file states beforehand, is corrected for its own" in claimed


def test_of_many_rows_it_has_the_best_and_the_one_they_are_compared_with(tsp):
    points = [*tsp.points, *(("maxk", name, 16, 2, "iid") for name in ("centred", "subloo"))]
    worst = {("reinforce", "group_mean", 16, 1): -9.0, ("maxk", "centred", 16, 2): -3.9}

    def change(found, cell):
        point = tuple(cell[axis] for axis in ("estimator", "baseline", "n", "k"))
        if point in worst and cell["training"].get("start", "iid") == "iid":
            found["final"]["value"] = [worst[point]] * 64

    with pytest.MonkeyPatch.context() as patch:
        from tests.studies.training import conftest

        for name in ("centred", "subloo"):
            patch.setitem(conftest.POINTS, ("maxk", name, 16, 2, "iid"), (-4.2, 0.01))
        summary = tsp.report(tsp.cells(points=points, seeds=(0, 1)), change)
    found = [line[0] for line in lines(table(summary))]
    assert len(found) == 12
    assert "POMO's loss (the reference)" in found
    assert "maxk centred for K = 2" in found
    assert "12 of 14 methods" in " ".join(table(summary).caption)


def test_without_the_row_that_others_are_compared_with_it_has_values_and_says_why(tsp):
    from maxk_lab.report.summarise import summarise_records

    points = [("reinforce", "group_mean", 16, 1, "iid"), ("maxk", "centred", 16, 8, "iid")]
    cells = tsp.cells(points=points, seeds=(0, 1))
    records = [tsp.record(cell) for cell in cells if cell["estimator"] == "maxk"]
    found = table(summarise_records(cells, records, name="it"))
    headings = [column.heading for column in found.columns]
    assert headings == ["method", "mean (Max@1)", "Max@8", "Max@64", "gap in %, best of 64"]
    ((_, *values),) = lines(found)
    assert "—" not in values
    assert (
        "Without differences to POMO's loss, which others are compared with: incomplete: 0 of 2 "
        "seeds finished."
    ) in found.caption
    assert "Intervals: 95%, each of one value alone." in found.caption


def test_of_one_seed_it_says_why_an_interval_can_be_wide_and_the_same_at_several_k(tsp):
    points = [("reinforce", "group_mean", 16, 1, "iid"), ("maxk", "centred", 16, 8, "iid")]
    summary = tsp.report(tsp.cells(points=points, seeds=(0,)))
    rows = summary.studies["training"].rows
    asked = Summary(header=Header("", "", (), (), (), {}), studies={})
    captions = []
    for within in (Range(), SHARES):
        bounded = tuple(replace(row, within=within) for row in rows)
        (found,) = short_table(places_of(bounded, 0.95), asked)
        captions.append("an interval rests on how many they are" in " ".join(found.caption))
    assert captions == [False, True]


def test_a_study_without_a_value_has_none(tsp):
    from maxk_lab.report.summarise import summarise_records

    rows = summarise_records(tsp.cells(), [], name="it").studies["training"].rows
    summary = Summary(header=Header("", "", (), (), (), {}), studies={})
    assert list(short_table(places_of(rows, 0.95), summary)) == []
