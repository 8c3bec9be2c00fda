"""The first lines of a report: what was measured at all, and what cannot be said for want of it."""

import json

import pytest

from maxk_lab.report.formats.render import FORMATS, render
from maxk_lab.report.model import Counts
from maxk_lab.report.summarise import summarise_records
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
