"""The first lines of a report: what was measured at all, and what cannot be said for want of it."""

import csv
import io
import json

import pytest
from sweep_files import plan_of

from maxk_lab.report.formats.render import FORMATS, render
from maxk_lab.report.model import Counts
from maxk_lab.report.summarise import summarise, summarise_records
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.claims.regions import Where
from maxk_lab.sweeps.spec.claims.shapes import EqualsClaim

TEXTS = ("terminal", "markdown", "latex")


def first_lines(text, count=6):
    return "\n".join(text.splitlines()[:count])


@pytest.fixture
def cells(lab):
    """Eight cells: two baselines, two n, two seeds."""
    return lab.cells(baselines=("none", "centred"), ks=(2,))


def claim(name, **where):
    return EqualsClaim(
        name=name,
        kind="equals",
        metric="scale",
        value="1",
        tolerance=10.0,
        where=Where(**{axis: (value,) for axis, value in where.items()}),
    )


@pytest.mark.parametrize("format", TEXTS)
def test_all_measured(lab, cells, format):
    summary = summarise_records(cells, map(lab.record, cells), name="it")
    assert summary.sound
    assert "All 8 cells measured." in first_lines(render(summary, format))


@pytest.mark.parametrize("format", TEXTS)
def test_what_is_not_is_counted_in_the_first_lines(lab, cells, format):
    ids = [cell["id"] for cell in cells]
    records = [lab.record(cells[0], status="failed"), *map(lab.record, cells[1:4])]
    summary = summarise_records(
        cells,
        records,
        name="it",
        stale=[ids[4], "f" * 16],
        damaged={ids[5]: f"cells/{ids[5]}.json: damaged and not used: it is no file but a pipe"},
    )
    text = render(summary, format)
    assert "3 of 8 cells measured; 1 failed, 1 damaged, 1 stale, 2 missing." in first_lines(text)
    assert "no file but a pipe" in text
    assert not summary.sound


def test_the_counts_are_in_json(lab, cells):
    summary = summarise_records(cells, map(lab.record, cells[:5]), name="it")
    found = json.loads(render(summary, "json"))
    assert found["counts"] == {
        "planned": 8, "done": 5, "failed": 0, "damaged": 0, "stale": 0, "missing": 3,
    }  # fmt: skip


def test_claims_that_cannot_be_judged_are_named(lab, cells):
    lost = next(cell for cell in cells if cell["baseline"] == "none" and cell["n"] == 8)
    claims = [claim("about_none", baseline="none"), claim("about_centred", baseline="centred")]
    records = [lab.record(cell) for cell in cells if cell is not lost]
    summary = summarise_records(cells, records, name="it", claims=claims)
    assert [found.verdict for found in summary.claims] == ["undecided", "supported"]
    assert summary.unjudged == ("about_none",)
    assert not summary.sound
    text = render(summary, "markdown")
    assert "Claims that cannot be judged for want of cells: about\\_none." in first_lines(text)
    assert summarise_records(cells, map(lab.record, cells), name="it", claims=claims).sound


@pytest.mark.parametrize("format", TEXTS)
def test_where_all_failed_the_reasons_are_told_and_no_tables(lab, cells, format):
    records = [lab.record(cell, status="failed") for cell in cells]
    records[-1].error = "Traceback\nValueError: another"
    text = render(summarise_records(cells, records, name="it"), format, width=300)
    assert "0 of 8 cells measured; 8 failed." in first_lines(text)
    assert text.count("MemoryError: the pool did not fit") == 1
    assert "7 cells, e.g. stage0/maxk/" in text
    assert "ValueError: another" in text
    assert not any(dashes in text for dashes in ("— |", "—  —", "--- &"))


def test_nothing_planned_and_nothing_done(lab, cells):
    for format in FORMATS:
        assert render(summarise_records(cells, [], name="it"), format)
    assert str(Counts()) == "no cells are planned"
    assert str(Counts(planned=2, missing=2)) == "0 of 2 cells measured; 2 missing"


@pytest.mark.parametrize("format", TEXTS)
def test_damaged_records_are_in_the_first_lines(lab, cells, format):
    damaged = {cell["id"]: f"{cell['id']}.json: damaged and not used: torn" for cell in cells[:2]}
    summary = summarise_records(cells, map(lab.record, cells[2:]), name="it", damaged=damaged)
    text = render(summary, format, width=300)
    assert f"DAMAGED: 2 records, the first: {cells[0]['id']}.json" in first_lines(text)
    assert not summary.sound
    lines = list(csv.DictReader(io.StringIO(render(summary, "csv"))))
    assert " ".join(line["damaged"] for line in lines).split() == list(damaged)
    assert json.loads(render(summary, "json"))["problems"] == list(damaged.values())


def test_a_file_of_many_records_that_is_lost_is_in_the_first_lines(lab, cells):
    records = map(lab.record, cells)
    summary = summarise_records(cells, records, name="it", lost=["cells/00.zip: not complete"])
    assert "DAMAGED: cells/00.zip: not complete." in first_lines(render(summary, "terminal"))
    assert not summary.sound


@pytest.mark.parametrize("format", TEXTS)
def test_where_nothing_was_measured_nothing_looks_like_a_result(lab, cells, format):
    about = [claim("about_none", baseline="none")]
    failed = [lab.record(cell, status="failed") for cell in cells]
    for number, record in enumerate(failed):
        record.error = f"ValueError: reason {number % 2}"
    for records, begins in ((failed, "Every cell failed"), ([], "Nothing is measured yet")):
        summary = summarise_records(cells, records, name="it", claims=about)
        text = render(summary, format, width=300)
        first = next(line for line in text.splitlines() if "cells measured" in line)
        assert begins in first
        assert "UNDECIDED" not in text
        assert "##" not in text.replace("## Without a result", "")
        assert "Claims that cannot be judged for want of cells: about" in first_lines(text, 9)
    told = render(summarise_records(cells, failed, name="it"), format, width=300)
    assert told.count("4 cells, e.g. stage0/maxk/") == 2
    assert all(told.count(f"ValueError: reason {number}") == 1 for number in (0, 1))


def test_of_very_many_reasons_the_first_are_told(lab, cells):
    cells = lab.cells(ks=(2,))
    records = [lab.record(cell, status="failed") for cell in cells]
    for number, record in enumerate(records):
        record.error = f"ValueError: reason {number}"
    text = render(summarise_records(cells, records, name="it"), "markdown")
    assert text.count("ValueError") == 20
    assert f"and {len(cells) - 20} more reasons" in text


def test_a_damaged_record_of_a_cell_that_is_not_planned_is_told(small, tmp_path):
    run = RunDirectory(tmp_path / "small")
    run.write_spec(plan_of(small).spec)
    assert summarise(run).sound
    run.append(b'00000000 {"id":"ffffffffffffffff"}\t{}\n')
    summary = summarise(run)
    assert not summary.sound
    assert summary.stale == ()
    assert "its checksum does not fit" in first_lines(render(summary, "terminal", width=300))


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_no_more_as_it_was_measured_is_in_the_first_lines(lab, cells, format):
    changed = ["code of my_rewards:f changed"]
    summary = summarise_records(cells, map(lab.record, cells), name="it", changed=changed)
    text = render(summary, format, width=300)
    if format in TEXTS:
        told = text.replace("\\_", "_")
        assert "CHANGED SINCE: code of my_rewards:f changed since it was" in first_lines(told)
    elif format == "json":
        assert json.loads(text)["changed_since"] == changed
    elif format == "html":
        assert "CHANGED SINCE: code of my_rewards:f changed since it was" in text
    else:
        assert {line["changed_since"] for line in csv.DictReader(io.StringIO(text))} == {*changed}
