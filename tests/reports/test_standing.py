"""The first lines of a report: what was measured at all, and what cannot be said for want of it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import maxk_lab
from maxk_lab.errors import LabWarning
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import Origin, make_report
from maxk_lab.sweep_file.claims import Claim, Where

TEXTS = ("terminal", "markdown")


def first_lines(text, count=6):
    return "\n".join(text.splitlines()[:count])


@pytest.fixture
def cells(lab):
    """Eight cells: two baselines, two n, two seeds."""
    return lab.cells(baselines=("none", "centred"), ks=(2,))


def claim(name, **where):
    return Claim(
        name=name,
        kind="equals",
        metric="scale",
        value="1",
        tolerance=10.0,
        where=Where(**{axis: (value,) for axis, value in where.items()}),
    )


@pytest.fixture
def unfinished(lab, cells):
    """A run with a cell in every state, and with claims on these."""
    return make_report(
        cells,
        [lab.record(cells[0], status="failed"), *map(lab.record, cells[1:4])],
        name="unfinished",
        description="What is said of a run that is not finished.",
        claims=[claim("about_none", baseline="none"), claim("about_all")],
        stale=2,
        changed=["my_rewards:f"],
    )


def test_an_unfinished_run_is_told_as_the_golden_page_has_it(unfinished):
    """With WRITE_GOLDEN set it is written anew."""
    page = Path(__file__).with_name("unfinished.md")
    text = rendered(unfinished, "markdown")
    if os.environ.get("WRITE_GOLDEN"):
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("format", ["terminal", "html"])
def test_every_state_is_in_the_first_lines(unfinished, format):
    text = rendered(unfinished, format).replace("\\_", "_")
    for said in (
        "3 of 8 cells measured; 1 failed, 4 missing.",
        "CHANGED: my_rewards:f changed since the measurement; run the sweep again.",
        "Claims that lack cells: about_none, about_all.",
    ):
        assert said in (text if format == "html" else first_lines(text, 9))
    assert not unfinished.sound


def test_the_states_are_in_json(unfinished):
    origin = json.loads(rendered(unfinished, "json"))["origin"]
    assert (origin["planned"], origin["done"]) == (8, 3)
    assert (len(origin["failed"]), len(origin["missing"])) == (1, 4)
    assert (origin["changed"], origin["stale"]) == (["my_rewards:f"], 2)
    assert Origin().progress == "no cells are planned"


@pytest.mark.parametrize("format", TEXTS)
def test_where_nothing_was_measured_nothing_looks_like_a_result(lab, cells, format):
    about = [claim("about_none", baseline="none")]
    failed = [
        replace(lab.record(cell, status="failed"), error=f"ValueError: reason {number % 2}")
        for number, cell in enumerate(cells)
    ]
    for records, begins in ((failed, "Every cell failed"), ([], "Nothing is measured yet")):
        summary = make_report(cells, records, name="it", claims=about)
        text = rendered(summary, format)
        first = next(line for line in text.splitlines() if "cells measured" in line)
        assert begins in first
        assert "UNDECIDED" not in text
        assert "##" not in text.replace("## Without a result", "")
        assert "Claims that lack cells: about" in first_lines(text, 9)
    told = rendered(make_report(cells, failed, name="it"), format)
    assert told.count("4 cells, e.g. stage0/maxk/") == 2
    assert all(told.count(f"ValueError: reason {number}") == 1 for number in (0, 1))


def test_code_that_changed_since_the_measurement_is_named(write_run, own_rewards):
    run, _ = write_run()
    assert "CHANGED" not in maxk_lab.report(run).text
    own_rewards.write_text("def short(completions, **_): return [1.0] * len(completions)\n")
    with pytest.warns(LabWarning, match="small: own_rewards:short changed since the measurement"):
        maxk_lab.load(run)
    report = maxk_lab.report(run)
    for text in (report.text, report.to("markdown")):
        assert "CHANGED: own" in first_lines(text)
