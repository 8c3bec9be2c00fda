"""The order of a report, and its first lines: what was measured, and what is therefore unknown."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import maxk_lab
from maxk_lab.errors import LabWarning
from maxk_lab.reports.answer import Answer
from maxk_lab.reports.charts import Figure
from maxk_lab.reports.claims import ClaimVerdict
from maxk_lab.reports.document import Block
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.sweep_file.claims import Claim, Where

CLAIM = {"kind": "equals", "metric": "scale", "value": "1", "tolerance": 10.0}
CLAIMS = [
    Claim(name="about_none", where=Where(baseline=("none",)), **CLAIM),
    Claim(name="about_all", **CLAIM),
]


@pytest.fixture
def cells(lab):
    """Eight cells: two baselines, two n, two seeds."""
    return lab.cells(baselines=("none", "centred"), ks=(2,))


def test_a_run_with_a_cell_in_every_state_is_as_the_golden_page(lab, cells):
    """With WRITE_GOLDEN set the page is written."""
    report = make_report(
        cells,
        [lab.record(cells[0], status="failed"), *map(lab.record, cells[1:4])],
        name="unfinished",
        description="What is said of a run that is not finished.",
        claims=CLAIMS,
        stale=2,
        changed=["my_rewards:f"],
    )
    assert not report.sound
    page = Path(__file__).with_name("unfinished.md")
    text = rendered(report, "markdown")
    if os.environ.get("WRITE_GOLDEN"):
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text
    lines = [
        "3 of 8 cells measured; 1 failed, 4 missing.",
        "CHANGED: my_rewards:f changed since the measurement; run the sweep again.",
        "Claims that lack cells: about_none, about_all.",
    ]
    assert {*lines} <= {*rendered(report, "terminal").splitlines()[:9]}
    assert all(line in rendered(report, "html") for line in lines)
    origin = json.loads(rendered(report, "json"))["origin"]
    assert (origin["planned"], origin["done"]) == (8, 3)
    assert (len(origin["failed"]), len(origin["missing"])) == (1, 4)
    assert (origin["changed"], origin["stale"]) == (["my_rewards:f"], 2)


@pytest.mark.parametrize("format", ["terminal", "markdown"])
def test_a_report_without_measurements_has_nothing_like_a_result(lab, cells, format):
    failed = [
        replace(lab.record(cell, status="failed"), error=f"ValueError: reason {number % 2}")
        for number, cell in enumerate(cells)
    ]
    for records, words in ((failed, "Every cell failed"), ([], "Nothing is measured yet")):
        text = rendered(make_report(cells, records, name="it", claims=CLAIMS), format)
        first = next(line for line in text.splitlines() if "cells measured" in line)
        assert words in first
        assert "UNDECIDED" not in text
        assert "##" not in text.replace("## Without a result", "")
        assert "Claims that lack cells: about" in "\n".join(text.splitlines()[:9])
    text = rendered(make_report(cells, failed, name="it"), format)
    assert text.count("4 cells, e.g. stage0/maxk/") == 2
    assert [text.count(f"ValueError: reason {number}") for number in (0, 1)] == [1, 1]


def test_code_that_changed_since_the_measurement_is_named(write_run, own_rewards):
    run, _ = write_run()
    assert "CHANGED" not in maxk_lab.report(run).text
    own_rewards.write_text("def short(completions, **_): return [1.0] * len(completions)\n")
    with pytest.warns(LabWarning, match="small: own_rewards:short changed since the measurement"):
        maxk_lab.load(run)
    report = maxk_lab.report(run)
    for text in (report.text, report.to("markdown")):
        assert "CHANGED: own" in "\n".join(text.splitlines()[:6])


def test_the_answer_comes_first_then_claims_short_tables_figures_and_folded_tables(lab, cells):
    report = make_report(cells, map(lab.record, cells), name="it", description="Which is best?")
    verdicts = ["undecided", "supported", "refuted", "supported"]
    claims = [ClaimVerdict(v, "1.00 [0.90, 1.10]", name="it", text="a is b") for v in verdicts]
    answer = Answer(("Use: centred.", "But < 3 seeds."), Block("In short", caption=("a note",)))
    figure = Figure("curves_1", "What grows & what does not", "Up is better.", "", ())
    report = replace(report, answers=(answer,), claims=tuple(claims))
    short, full = (rendered(report, "terminal", full=full) for full in (False, True))
    assert full.startswith(short.rstrip("\n"))
    assert "All tables" not in short
    assert "it: a is b." in full
    drawn = rendered(replace(report, charts=(figure,)), "markdown")
    for text, places in (
        (full, ["Which is best?", "All 8 cells measured", "Answer", "Claims", "In short"]),
        (drawn, ["**Use** centred", "SUPPORTED it", "a note", "(figures/curves_1.png)", "All tab"]),
    ):
        found = [text.find(words) for words in places]
        assert -1 < found[0] < found[1] < found[2] < found[3] < found[4]
    assert "figures/" not in rendered(report, "markdown")
    for chosen, words in {
        (2,): "1 of 1 refuted",
        (1, 3): "2 of 2 supported",
        (0, 1, 2, 3): "2 of 4 supported, 1 refuted, 1 undecided",
    }.items():
        some = replace(report, claims=tuple(claims[i] for i in chosen))
        assert some.answer[-1] == f"Claims: {words}."
    assert replace(report, claims=()).answer[-1] == "But < 3 seeds."
